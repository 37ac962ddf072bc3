"""What a decision says to do next: a step that helps where nothing ran, or where noise leaves rows open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gate.analysis import phrases
from gate.model.decision import Decision, RowFinding
from gate.model.outcome import Outcome, Results
from gate.model.policy import Policy
from gate.render import rows
from tests.analysis import build

LEDGER = build.ledger(8)
ALONE = build.ledger(1)
NO_KERNEL = {"benchmark_status": "unsupported", "median_us": None, "skip_reason": "no kernel for this op"}


def timed(us: float, **fields: object) -> Results:
    """One row of a harness that takes one launch."""
    return Results(outcomes=(build.outcome(ALONE.shapes[0], "flydsl", us, **fields),))


def stored(head_us: float, **fields: object) -> Decision:
    """200 us against `head_us`, as a harness without sessions or blocks tells it."""
    given = {"timing_method": "cudagraph", "session_id": None, **fields}
    return build.decide(ALONE, timed(200.0, **given), timed(head_us, **given))


def test_rows_that_no_baseline_would_help_are_not_called_a_first_run() -> None:
    nothing = Results(outcomes=())
    head = Results(outcomes=tuple(build.outcome(one, "flydsl", None, **NO_KERNEL) for one in LEDGER.shapes))
    decision = build.decide(LEDGER, nothing, head)
    assert (decision.gate, decision.reasons[0]) == ("no_verdict", "nothing_ran")
    assert "why each row did not run" in decision.next_step and "baseline" not in decision.next_step
    assert build.decide(LEDGER, nothing, build.run(LEDGER, seed=1)).reasons[0] == "first_run"


@pytest.mark.parametrize("skipped", [True, False])
def test_where_only_others_were_timed_it_says_how_to_judge_one_of_them(skipped: bool) -> None:
    def others(seed: int) -> Results:
        rows: Sequence[Outcome] = [row for row in build.run(LEDGER, seed=seed).outcomes if row.provider != "flydsl"]
        off = [build.outcome(one, "flydsl", None, **NO_KERNEL) for one in LEDGER.shapes] if skipped else []
        return Results(outcomes=(*rows, *off))

    decision = build.decide(LEDGER, others(1), others(2))
    assert decision.gate == "no_verdict"
    assert decision.next_step.endswith("both sides timed aiter, pytorch, triton: name one as --candidate")


def test_a_candidate_whose_times_are_not_believed_was_measured() -> None:
    decision = build.decide(LEDGER, *(build.edit(build.run(LEDGER, seed=1), 0, LEDGER, correct=None),) * 2)
    assert "--candidate" not in decision.next_step


def test_stored_times_are_not_settled_by_blocks_that_they_do_not_have() -> None:
    decision = stored(280.0)
    assert (decision.gate, decision.rows[0].verdict) == ("no_verdict", "inconclusive")
    assert "one session_id and blocks_us" in decision.next_step and "more blocks" not in decision.next_step


def test_the_step_for_stored_times_settles_them() -> None:
    def both(us: float) -> Results:
        made = tuple((us * (1 + block / 1000), us * (1 - block / 1000)) for block in range(8))
        return timed(us, timing_method="cudagraph", session_id="one", blocks_us=made)

    assert build.decide(ALONE, both(200.0), both(280.0)).gate == "block"
    assert build.decide(ALONE, both(200.0), both(200.1)).gate == "pass"


def test_open_rows_of_one_session_need_more_blocks() -> None:
    base, head = (build.run(LEDGER, seed=seed, noise=0.2, k=4) for seed in (1, 2))
    decision = build.decide(LEDGER, base, head)
    assert decision.counts["inconclusive"] > 4 and "mostly_inconclusive" in decision.reasons
    assert decision.next_step == "measure more blocks in one session, then judge again"


def test_a_head_whose_rows_all_fail_is_no_other_environment() -> None:
    base = build.run(LEDGER, seed=1)
    failed = {"benchmark_status": "failed", "median_us": None, "timing_method": None, "cache_state": None}
    head = tuple(
        msgspec.structs.replace(row, blocks_us=None, **failed) if row.provider == "flydsl" else row
        for row in build.run(LEDGER, seed=2).outcomes
    )
    decision = build.decide(LEDGER, base, Results(outcomes=head))
    assert decision.counts["newly_failed"] == 8 and decision.environment.differences == ()
    other = build.run(LEDGER, seed=2, timing_method="eager_event")
    assert build.decide(LEDGER, base, other).environment.differences == ("timing_method",)


def finding(number: int, verdict: Any, reason: str, ratio: float) -> RowFinding:
    """A row of one op that is worth another measurement."""
    return RowFinding(
        shape_id=f"sha1:{number:04}", provider="flydsl", verdict=verdict, reasons=(reason,), op_type="rmsnorm",
        model="m", stage="decode", dtype="bf16", args={}, ratio=ratio, suspect=verdict == "inconclusive",
    )  # fmt: skip


def test_the_worst_rows_to_measure_again_are_those_of_the_worst_result_however_large_the_others_ratios() -> None:
    slower = [finding(n, "regressed", "slower", 1.05 + n / 1000) for n in range(12)]
    named = [finding(100 + n, "inconclusive", "awaits_confirmation", 1.2 + n / 1000) for n in range(6)]
    noisy = [finding(200 + n, "inconclusive", "above_noise", 1.5 + n / 1000) for n in range(30)]
    again, profiled = phrases.commands([*noisy, *named, *slower], Policy(), confirmed=0)
    assert again.what.startswith("measure the worst 20 rows of rmsnorm again")
    asked = re.findall(r"--shape (\S+)", again.line)
    wanted = [*rows.ordered(slower), *rows.ordered(named), *rows.ordered(noisy)[:2]]
    assert asked == [row.shape_id for row in wanted]
    assert asked[0] == rows.ordered([*noisy, *slower])[0].shape_id and asked[0] in profiled.line
