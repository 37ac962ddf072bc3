"""Which dispatches belong to the calls."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gate.profiling.calls import Calls, split
from gate.profiling.trace import Dispatch


def dispatches(names: Sequence[str]) -> list[Dispatch]:
    return [Dispatch(name=name, start_ns=10 * index, took_ns=5) for index, name in enumerate(names)]


def names(found: Sequence[Dispatch]) -> str:
    return "".join(one.name for one in found)


def cut(text: str, *, calls: int | None = None, warmup: int = 0, kernel: str | None = None) -> Calls:
    return split(dispatches(text), calls=calls, warmup=warmup, kernel=kernel)


@pytest.mark.parametrize(
    ("text", "calls", "warmup", "setup", "warm", "measured"),
    [
        ("fcfc" + "k" * 6, 4, 2, "fcfc", "kk", "kkkk"),
        ("fc" + "ab" * 5, 5, 0, "fc", "", "ababababab"),
        # Two equal kernels a call: as many dispatches as the count allows belong to it.
        ("f" + "kk" * 4, 4, 0, "f", "", "kkkkkkkk"),
        # A copy inside every call is part of the call.
        ("fc" + "ck" * 3, 3, 0, "fc", "", "ckckck"),
    ],
)
def test_with_known_calls(text: str, calls: int, warmup: int, setup: str, warm: str, measured: str) -> None:
    found = cut(text, calls=calls, warmup=warmup)
    assert (names(found.setup), names(found.warmup), names(found.measured)) == (setup, warm, measured)
    assert (found.calls, found.notes) == (calls, ())


@pytest.mark.parametrize(
    ("text", "measured", "calls"), [("rcrc" + "k" * 60, "k" * 60, 60), ("f" + "abc" * 9, "abc" * 9, 9)]
)
def test_with_unknown_calls_the_repeating_tail_counts(text: str, measured: str, calls: int) -> None:
    found = cut(text)
    assert (names(found.measured), found.calls) == (measured, calls)
    assert len(found.notes) == 1


def test_a_trace_that_is_no_repetition_is_told() -> None:
    found = cut("fkkxkkk", calls=5)
    assert (names(found.measured), found.calls) == ("kkkkk", None)
    assert "does not end in 5 equal calls" in found.notes[0]
    assert names(cut("abcd").measured) == "abcd"


def test_a_first_call_that_compiles_counts_as_setup() -> None:
    found = cut("fc" + "jk" + "k" + "kkkk", calls=4, warmup=3)
    assert (names(found.setup), names(found.measured), found.calls) == ("fcjkk", "kkkk", 4)
    assert "warm-up calls ran other kernels" in found.notes[0]


def test_a_name_may_be_given() -> None:
    found = cut("fkckck", calls=2, warmup=1, kernel="k")
    assert (names(found.measured), names(found.warmup), names(found.setup), found.calls) == ("kk", "k", "fcc", 2)
    assert "no multiple" in cut("fkk", calls=3, kernel="k").notes[0]


def test_no_dispatch_is_lost() -> None:
    for text in ("f", "fk", "abab", "kkkkk", "xyzxyzxyzq"):
        for calls in (None, 1, 2, 3, 7):
            found = cut(text, calls=calls)
            assert sorted(names(found.setup) + names(found.warmup) + names(found.measured)) == sorted(text)
