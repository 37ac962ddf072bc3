"""Reading the providers' own sources: every call found, nothing that hides what is called."""

from __future__ import annotations

import pytest

from gate.contracts.calls import Unreadable, calls_of, provider_calls

SOURCE = """
from gate.replay.call import call, find

@kernel(op="softmax", provider="p")
def anything(case, tensors):
    kind = find("pkg.kinds:Kind")
    return call("pkg.new:softmax", "pkg.old:softmax", x=tensors["x"], dtype=kind)

def helper():
    return call("pkg.layout:shuffle", weight=1)()
"""


def test_each_call_with_its_places_arguments_and_op() -> None:
    found = calls_of(SOURCE, provider="p", file="p.py")
    assert [(call.op, call.places, call.arguments, call.line) for call in found] == [
        ("softmax", ("pkg.kinds:Kind",), None, 6),
        ("softmax", ("pkg.new:softmax", "pkg.old:softmax"), ("x", "dtype"), 7),
        ("helper", ("pkg.layout:shuffle",), ("weight",), 10),
    ]


TABLE = """
from functools import partial

norm = partial(norm_kernel, at=("pkg.new", "pkg.old"), provider="p")
rmsnorm = norm("rms", op="rmsnorm", takes="input weight")
layernorm = norm_kernel("layer", at=("pkg.layer",), op="layernorm", takes="input bias")
"""


def test_each_line_of_a_table_is_a_call() -> None:
    found = calls_of(TABLE, provider="p", file="p.py")
    assert [(call.op, call.places, call.arguments, call.line) for call in found] == [
        ("rmsnorm", ("pkg.new:rms", "pkg.old:rms"), ("input", "weight"), 5),
        ("layernorm", ("pkg.layer:layer",), ("input", "bias"), 6),
    ]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('norm("rms", ', "norm(NAME, "),
        ('takes="input weight"', "takes=NAMES"),
        ('("pkg.new", "pkg.old")', "PLACES"),
        ('op="rmsnorm"', "op=OP"),
        ("rmsnorm = norm(", "rmsnorm = another("),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(was: str, now: str) -> None:
    assert was in TABLE
    with pytest.raises(Unreadable, match=r"p.py:5: a table's function, its op, takes and at must be literal"):
        calls_of(TABLE.replace(was, now), provider="p", file="p.py")


def test_a_function_of_that_name_from_elsewhere_is_none() -> None:
    assert calls_of(SOURCE.replace("gate.replay.call", "another.place"), provider="p", file="p.py") == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("call(place, x=1)", "p.py:5: the places of a call must be literal"),
        ("call()", "must be literal"),
        ('call("pkg.new.softmax", x=1)', "pkg.module:function"),
        ('call("pkg:f", **more)', "must be named, not unpacked"),
    ],
)
def test_what_cannot_be_read_is_refused(call: str, words: str) -> None:
    source = f"from gate.replay.call import call\n\n\ndef f(place, more):\n    return {call}\n"
    with pytest.raises(Unreadable, match=words):
        calls_of(source, provider="p", file="p.py")


def test_every_provider_of_aiter_is_among_them() -> None:
    found = provider_calls()
    assert {call.provider for call in found} >= {"aiter", "aiter_triton", "aiter_ck", "aiter_asm", "gluon"}
    assert all(place.startswith("aiter.") for call in found for place in call.places)
    assert len({(call.file, call.line) for call in found}) == len(found) >= 50
