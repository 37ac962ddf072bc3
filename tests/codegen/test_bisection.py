"""The search for the version that changed the code, with versions that cannot be asked."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.codegen.bisection import Bisected, Skip, bisect


def search(codes: list[str | None]) -> tuple[Bisected, list[str]]:
    """Bisect versions v0, v1, ... that give these codes; None is a version that cannot be asked."""
    asked: list[str] = []

    def signature(version: str) -> tuple[str, str]:
        asked.append(version)
        code = codes[int(version[1:])]
        if code is None:
            raise Skip("does not install")
        return code, f"code {code}"

    return bisect([f"v{index}" for index in range(len(codes))], signature), asked


def test_one_change_is_found_with_both_neighbours_measured() -> None:
    found, asked = search(["a"] * 5 + ["b"] * 4)
    assert (found.last_same, found.first_changed, found.between) == ("v4", "v5", ())
    assert {"v4", "v5"} <= set(asked)
    assert (
        "both neighbours were compiled; the first changed version already has the last one's code" in found.confidence
    )


def test_versions_that_cannot_be_asked_widen_the_answer() -> None:
    found, _ = search(["a", "a", None, None, "b", "b"])
    assert (found.last_same, found.first_changed, found.between) == ("v1", "v4", ("v2", "v3"))
    assert "not narrowed further: v2, v3" in found.confidence
    assert {step.version: step.words for step in found.steps if step.state == "skipped"} == {
        "v2": "does not install",
        "v3": "does not install",
    }


def test_a_second_change_is_admitted() -> None:
    found, _ = search(["a", "b", "b", "c"])
    assert found.first_changed == "v1" and "changed more than once" in found.confidence
    assert {step.version: step.state for step in found.steps}["v1"] == "like neither end"


def test_no_change_between_the_ends_is_said_to_be_unsearched() -> None:
    found, asked = search(["a", "b", "a"])
    assert found.first_changed is None and "was not searched" in found.confidence and asked == ["v0", "v2"]


@pytest.mark.parametrize("codes", [[None, "a", "b"], ["a", "b", None]])
def test_an_end_that_cannot_be_asked_stops_the_search(codes: list[str | None]) -> None:
    with pytest.raises(Skip, match="does not install"):
        search(codes)


@given(size=st.integers(2, 60), change=st.integers(1, 59), lost=st.sets(st.integers(1, 58)))
def test_the_change_lies_in_the_bracket_and_few_versions_are_asked(size: int, change: int, lost: set[int]) -> None:
    change = min(change, size - 1)
    lost = {index for index in lost if index < size - 1}
    codes: list[str | None] = ["a" if index < change else "b" for index in range(size)]
    for index in lost:
        codes[index] = None
    found, asked = search(codes)
    assert found.last_same is not None and found.first_changed is not None
    low, high = int(found.last_same[1:]), int(found.first_changed[1:])
    assert low < change <= high and all(index in lost for index in range(low + 1, high))
    assert len(asked) == len(set(asked)) <= 2 + math.ceil(math.log2(size)) + 2 * len(lost)
