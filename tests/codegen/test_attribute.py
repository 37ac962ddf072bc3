"""Which of two changes moved the code."""

from __future__ import annotations

import pytest

from gate.codegen.attribute import Corners, attribute, attribute_all
from gate.model.codegen import CodegenRecord
from tests.codegen.records import broken, record


def corners(base: str, kernels: str, compiler: str, head: str) -> Corners:
    def made(name: str) -> CodegenRecord | None:
        return None if name == "-" else broken() if name == "x" else record(isa_sha=name * 16)

    return Corners(base_base=made(base), head_kernels=made(kernels), head_compiler=made(compiler), head_head=made(head))


@pytest.mark.parametrize(
    ("four", "cause", "words"),
    [
        ("aaaa", "same", "the code is equal"),
        ("abca", "same", "undo each other"),
        ("abab", "kernels", "the kernels alone moved it."),
        ("abac", "kernels", "the kernels alone moved it, and the other side"),
        ("aabb", "compiler", "the compiler alone moved it."),
        ("abcd", "both", "either change alone"),
        ("aaab", "only_together", "neither change alone"),
        ("axaa", "same", "undo each other"),
        ("axab", "kernels", "the other side changes it further"),
        ("xxbb", "compiler", "the compiler alone"),
        ("a-aa", "undecided", "one of the four"),
        ("-aaa", "undecided", "one of the four"),
    ],
)
def test_the_four_corners(four: str, cause: str, words: str) -> None:
    found = attribute("k", corners(*four))
    assert found.cause == cause and words in found.text


def test_every_key_of_either_side_is_there() -> None:
    one, two = record("gemm"), record("softmax")
    found = attribute_all({"g": one}, {"g": one}, {"g": one}, {"g": one, "s": two})
    assert [(item.compile_key, item.cause) for item in found] == [("g", "same"), ("s", "undecided")]
