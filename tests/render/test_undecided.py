"""Rows without a clear verdict, in comment and terminal: what noise leaves open is shown with its times, and a failure
with its reason."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from gate import render
from gate.model.decision import Decision
from gate.model.reasons import SETTLED_BY
from gate.render import terminal
from tests.render.examples import BLOCKED, NO_VERDICT, decision, row

OPEN = {"verdict": "inconclusive", "ratio": 1.4, "base_us": 200.0, "head_us": 280.0, "mde": 0.497, "ci": (1.33, 1.47)}
STORED = {**OPEN, "reasons": ("above_noise", "summaries_only")}
GAP = {**NO_VERDICT, "reasons": ("mostly_inconclusive",), "next_step": SETTLED_BY["stored"]}


def printed(found: Decision) -> str:
    """What a terminal shows."""
    text = io.StringIO()
    terminal.show(found, Console(file=text, soft_wrap=True, width=400))
    return text.getvalue()


def fold(comment: str, title: str) -> str:
    """One folded part of a comment, without the blanks that do not break."""
    (part,) = re.findall(rf"<summary>{re.escape(title)}.*?</details>", comment, re.DOTALL)
    return str(part).replace("&nbsp;", " ")


def test_an_open_row_shows_its_times_under_a_true_heading() -> None:
    comment = render.comment(decision([row(0, **STORED), row(1)], **GAP))
    part = fold(comment, "Compared, and neither slower nor not slower: 1")
    assert "200.0 → 280.0 µs<br>+40.0%" in part and "a slowdown of 49.7% or more would have shown" in part
    assert f"To settle them: {SETTLED_BY['stored']}." in part
    assert "Not measured or not compared" not in comment
    assert "+40.0%, 200.0 → 280.0 µs." in comment.split("**Next:**")[0]


def test_a_terminal_shows_the_times_of_an_open_row() -> None:
    said = printed(decision([row(0, **STORED), row(1)], **GAP))
    assert re.search(r"inconclusive +200\.00 -> 280\.00 us  \+40\.0% \(from 49\.7% it would show\) +rmsnorm", said)
    assert f"to settle them: {SETTLED_BY['stored']}" in said


def test_what_would_have_shown_is_not_said_of_a_row_that_is_beyond_it() -> None:
    moved = {**STORED, "reasons": ("control_moved", "summaries_only"), "mde": 0.157}
    found = decision([row(0, **moved), row(1)], **GAP)
    assert "would have shown" not in render.comment(found) and "would show" not in printed(found)
    assert "+40.0%" in printed(found)


def test_no_open_row_is_dropped() -> None:
    many = [row(index, **STORED) for index in range(30)]
    assert "and 10 more rows: see decision.json" in printed(decision(many, **GAP))
    assert fold(render.comment(decision(many, **GAP)), "Compared, and neither").count("+40.0%") == 30


@pytest.mark.parametrize(
    ("reasons", "step"),
    [
        (("awaits_confirmation",), "suspect"),
        (("unstable", "separate_sessions"), "stored"),
        (("floor_limited",), "floor"),
        (("wide_interval",), "blocks"),
    ],
)
def test_each_kind_of_open_row_has_a_step_of_its_own(reasons: tuple[str, ...], step: str) -> None:
    found = decision([row(0, **{**OPEN, "reasons": reasons}), row(1)])
    assert f"To settle them: {SETTLED_BY[step]}." in render.comment(found)
    assert f"to settle them: {SETTLED_BY[step]}" in printed(found)


def test_rows_that_were_not_compared_keep_their_own_heading() -> None:
    apart = row(1, verdict="not_comparable", reasons=("cache_mismatch",), ratio=None, detail="base cold, head warm")
    comment = render.comment(decision([row(0, **STORED), apart], **GAP))
    part = fold(comment, "Not measured or not compared: 1")
    assert "base cold, head warm" in part and "+40.0%" not in part


def test_a_terminal_says_why_a_row_fails_or_did_not_run() -> None:
    gone = {"ratio": None, "head_us": None, "speedup_vs_best": None}
    failed = row(0, verdict="newly_failed", reasons=("newly_failed",), detail="there is no module my_kernels", **gone)
    bare = row(1, verdict="not_run", reasons=("unsupported",), detail="no kernel for\nlayernorm", **gone)
    said = printed(decision([failed, bare], **BLOCKED)).splitlines()
    at = next(number for number, line in enumerate(said) if "newly_failed" in line)
    assert said[at + 1].strip() == "there is no module my_kernels"
    assert any(line.endswith("does not support this shape: no kernel for�layernorm") for line in said)


def test_only_rows_that_read_below_one_are_behind() -> None:
    def at(index: int, speedup: float) -> object:
        return row(index, speedup_vs_best=speedup, classification="baseline_unfair_or_unmatched", likely_fix="add one")

    comment = render.comment(decision([at(0, 0.8), at(1, 1.3), at(2, 0.997), row(3)]))  # type: ignore[list-item]
    behind = fold(comment, "Behind the best baseline: 1")
    assert "0.80x" in behind and "1.30x" not in behind
    ahead = fold(comment, "Level with the best baseline or ahead of it, and in doubt: 2")
    assert "1.30x" in ahead and "1.00x" in ahead and "0.80x" not in ahead
