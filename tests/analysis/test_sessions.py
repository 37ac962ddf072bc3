"""Separate sessions and stored summaries: the noise floor, the control arm, the launch floor, confirmation."""

from __future__ import annotations

import shlex

import msgspec
import numpy as np
import pytest

from gate.analysis import looks
from gate.analysis.trial import ours
from gate.analysis.trial.source import MI350X, Simulated
from gate.analysis.verdicts import rule
from gate.commands.profile import command as profile
from gate.commands.replay import command as replay
from gate.model.outcome import Results
from gate.model.policy import Policy
from tests.analysis import build

LEDGER = build.ledger()
MONDAY = build.run(LEDGER, seed=1, session_id="monday")


def tuesday(**fields: object) -> Results:
    return build.run(LEDGER, seed=2, session_id="tuesday", **fields)  # type: ignore[arg-type]


def test_equal_sessions_pass_with_the_floor_named() -> None:
    decision = build.decide(LEDGER, MONDAY, tuesday())
    assert (decision.gate, decision.counts["unchanged"]) == ("pass", 8)
    assert build.row(decision, 0).reasons == ("within_noise", "separate_sessions")


def test_one_slow_row_between_sessions_blocks() -> None:
    decision = build.decide(LEDGER, MONDAY, tuesday(factors={4: 1.2}))
    assert (build.row(decision, 4).verdict, decision.gate) == ("regressed", "block")


def test_a_machine_that_moved_blames_no_row_and_clears_none() -> None:
    decision = build.decide(LEDGER, MONDAY, tuesday(every=1.16))
    assert decision.counts["inconclusive"] == 8
    assert all(row.reasons[0] == "control_moved" for row in decision.rows)
    assert all(control.moved for control in decision.controls)
    assert decision.gate == "no_verdict"


def test_a_row_slower_than_the_machine_blocks_all_the_same() -> None:
    decision = build.decide(LEDGER, MONDAY, tuesday(every=1.16, factors={4: 3.0}))
    row = build.row(decision, 4)
    assert row.verdict == "regressed"
    assert {"slower", "control_moved"} <= set(row.reasons)


def test_a_faster_machine_does_not_hide_a_slowdown() -> None:
    decision = build.decide(LEDGER, MONDAY, tuesday(every=0.8, factors={4: 1.2}))
    assert build.row(decision, 4).verdict == "inconclusive"
    assert decision.gate == "no_verdict"


def test_controls_of_the_same_session_do_not_excuse() -> None:
    rivals = {name: factor * 1.2 for name, factor in build.RIVALS.items()}
    base, head = build.run(LEDGER, seed=1), build.run(LEDGER, seed=2, factors={4: 1.2}, rivals=rivals)
    assert build.row(build.decide(LEDGER, base, head), 4).verdict == "regressed"


def test_a_baseline_of_another_version_is_no_control() -> None:
    head = Results(
        outcomes=tuple(
            msgspec.structs.replace(row, baseline_commit="other") if row.provider == "aiter" else row
            for row in tuesday().outcomes
        )
    )
    decision = build.decide(LEDGER, MONDAY, head)
    assert {control.provider: control.n for control in decision.controls} == {"aiter": 0, "triton": 8, "pytorch": 8}
    assert any("aiter changed its own version" in problem for problem in decision.problems)


def test_without_controls_the_row_says_so() -> None:
    alone = {"rmsnorm": build.matrix(rivals=())}
    base, head = (build.drop(run, providers=list(build.RIVALS)) for run in (MONDAY, tuesday()))
    decision = build.decide(LEDGER, base, head, matrices=alone)
    assert build.row(decision, 0).reasons == ("within_noise", "no_control", "separate_sessions")


@pytest.mark.parametrize(
    ("factor", "verdict", "code"),
    [(1.04, "unchanged", "within_noise"), (1.15, "inconclusive", "above_noise"), (1.5, "regressed", "slower"),
     (0.9, "unchanged", "within_noise"), (0.5, "improved", "faster")],
)  # fmt: skip
def test_stored_one_launch_summaries(factor: float, verdict: str, code: str) -> None:
    legacy = {"k": None, "noise": 0.0, "session_id": None, "timing_method": "cudagraph", "cache_state": "cold_l2"}
    base = build.run(LEDGER, seed=1, **legacy)  # type: ignore[arg-type]
    head = build.run(LEDGER, seed=2, factors={4: factor}, **legacy)  # type: ignore[arg-type]
    row = build.row(build.decide(LEDGER, base, head), 4)
    assert (row.verdict, row.reasons[0]) == (verdict, code)
    assert row.mde is not None
    assert row.mde > 0.3


def test_a_time_at_the_launch_floor_clears_nothing() -> None:
    legacy = {"k": None, "noise": 0.0, "session_id": None, "timing_method": "cudagraph", "cache_state": "cold_l2"}
    base = build.run(LEDGER, seed=1, **legacy)  # type: ignore[arg-type]
    at_floor = build.edit(base, 4, LEDGER, median_us=13.0)
    row = build.row(build.decide(LEDGER, at_floor, at_floor), 4)
    assert (row.verdict, row.reasons[0]) == ("inconclusive", "floor_limited")


def test_a_wide_stored_spread_widens_the_floor() -> None:
    base = build.run(LEDGER, seed=1, k=None, noise=0.0, session_id=None)
    spread = {"p10_us": 18.0, "p90_us": 36.0}
    base = build.edit(base, 4, LEDGER, **spread)
    head = build.edit(base, 4, LEDGER, median_us=22.0 * 1.5, **spread)
    row = build.row(build.decide(LEDGER, base, head), 4)
    assert (row.verdict, row.reasons[0]) == ("inconclusive", "unstable")


def test_too_few_blocks_fall_back_to_the_summaries() -> None:
    base, head = build.run(LEDGER, seed=1, k=2), build.run(LEDGER, seed=2, k=2, factors={4: 1.5})
    decision = build.decide(LEDGER, base, head)
    assert "too_few_blocks" in build.row(decision, 0).reasons
    assert build.row(decision, 4).verdict == "regressed"


def test_a_confirming_session_settles_suspects() -> None:
    base, head = build.run(LEDGER, seed=1), build.run(LEDGER, seed=2, factors={4: 1.05})
    clean = (build.run(LEDGER, seed=3, k=16), build.run(LEDGER, seed=4, k=16))
    slow = (build.run(LEDGER, seed=3, k=16), build.run(LEDGER, seed=4, k=16, factors={4: 1.05}))
    refuted = build.row(build.decide(LEDGER, base, head, confirm=clean), 4)
    assert (refuted.verdict, refuted.reasons[0], refuted.suspect) == ("inconclusive", "unconfirmed", True)
    assert build.row(build.decide(LEDGER, base, head, confirm=slow), 4).verdict == "regressed"


def test_a_suspect_comes_with_the_command_that_settles_it() -> None:
    decision = build.decide(LEDGER, MONDAY, tuesday(factors={4: 1.04}))
    assert build.row(decision, 4).suspect
    line = decision.commands[0].line
    assert line.startswith(f"gate replay --op rmsnorm --shape {LEDGER.shapes[4].shape_id} --blocks 16 ")
    taken = {option for parameter in replay.params for option in parameter.opts}
    assert {word for word in shlex.split(line) if word.startswith("--")} <= taken


def test_a_slower_row_comes_with_the_command_that_profiles_it() -> None:
    decision = build.decide(LEDGER, MONDAY, tuesday(factors={4: 1.4}))
    assert build.row(decision, 4).verdict == "regressed"
    line = decision.commands[-1].line
    assert line.startswith(f"gate profile --op rmsnorm --shape {LEDGER.shapes[4].shape_id} --provider flydsl ")
    taken = {option for parameter in profile.params for option in parameter.opts}
    assert {word for word in shlex.split(line) if word.startswith("--")} <= taken
    suspect_only = build.decide(LEDGER, MONDAY, tuesday(factors={4: 1.04}))
    assert not any(command.line.startswith("gate profile") for command in suspect_only.commands)


def test_a_design_that_cannot_fail_is_refused_with_what_it_would_need() -> None:
    policy = Policy(noise=msgspec.structs.replace(Policy().noise, process_sd=0.02))
    decision = build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2), policy=policy)
    assert decision.gate == "no_verdict"
    assert "cannot_fail" in decision.reasons
    assert any("32 blocks over 8 rows show no slowdown below" in problem for problem in decision.problems)


def test_the_plan_names_open_rows_for_the_next_look_and_suspects_for_the_confirmation() -> None:
    base = build.run(LEDGER, seed=1)
    head = build.run(LEDGER, seed=2, factors={2: 1.2, 5: 1.013})
    rows = build.decide(LEDGER, base, head, policy=Policy()).rows
    plan = looks.plan(rows, Policy())
    assert plan.confirm == (LEDGER.shapes[2].shape_id,)
    assert plan.again == (LEDGER.shapes[5].shape_id,)
    assert (plan.blocks, plan.processes) == (16, 8)


def test_a_kernel_no_longer_than_an_empty_one_is_never_cleared_and_still_caught() -> None:
    bound = {"dispatch_bound": True, "floor_us": 3.0}
    base = build.edit(build.run(LEDGER, seed=1), 0, LEDGER, **bound)
    head = build.edit(build.run(LEDGER, seed=2), 0, LEDGER, **bound)
    row = build.row(build.decide(LEDGER, base, head), 0)
    assert (row.verdict, row.reasons) == ("inconclusive", ("floor_limited",))
    slow = build.edit(build.run(LEDGER, seed=2, factors={0: 2.0}), 0, LEDGER, **bound)
    assert build.row(build.decide(LEDGER, base, slow), 0).verdict == "regressed"


def test_the_candidates_own_version_is_shown_and_is_no_difference_of_the_stack() -> None:
    base, head = (
        build.run(LEDGER, seed=seed, flydsl_version=f"0.{seed}", torch_version=f"2.{seed}") for seed in (1, 2)
    )
    found = build.decide(LEDGER, base, head).environment
    assert (found.base["flydsl_version"], found.head["flydsl_version"]) == ("0.1", "0.2")
    assert found.differences == ("torch_version",)


def test_a_row_named_by_its_own_p_value_is_settled_by_the_fresh_session_alone() -> None:
    many = build.ledger(60)
    base, head = build.run(many, seed=1), build.run(many, seed=2, factors={4: 1.025})
    strict = msgspec.structs.replace(Policy().screen, fdr=1e-6)
    policy = msgspec.structs.replace(Policy(), screen=strict)
    first = build.row(build.decide(many, base, head, policy=policy), 4)
    assert (first.verdict, first.reasons[0], first.suspect) == ("inconclusive", "unconfirmed", True)
    pairs = {"k": 16, "block_process": tuple(index // 2 for index in range(16))}
    again = (build.run(many, seed=3, **pairs), build.run(many, seed=4, factors={4: 1.025}, **pairs))  # type: ignore[arg-type]
    assert build.row(build.decide(many, base, head, policy=policy, confirm=again), 4).verdict == "regressed"
    clean = (build.run(many, seed=3, **pairs), build.run(many, seed=4, **pairs))  # type: ignore[arg-type]
    assert build.row(build.decide(many, base, head, policy=policy, confirm=clean), 4).verdict != "regressed"


def test_a_small_slowdown_in_one_process_waits_for_its_confirmation_and_is_never_green() -> None:
    base, head = build.run(LEDGER, seed=1), build.run(LEDGER, seed=2, factors={4: 1.03})
    alone = build.decide(LEDGER, base, head)
    row = build.row(alone, 4)
    assert (row.verdict, row.reasons[0], row.suspect) == ("inconclusive", "awaits_confirmation", True)
    assert (alone.gate, "suspects_unconfirmed" in alone.reasons) == ("no_verdict", True)
    assert "--confirm" in alone.next_step
    pairs = {"k": 16, "block_process": tuple(index // 2 for index in range(16))}
    fresh = build.run(LEDGER, seed=3, **pairs)  # type: ignore[arg-type]
    slow = build.run(LEDGER, seed=4, factors={4: 1.03}, **pairs)  # type: ignore[arg-type]
    assert build.decide(LEDGER, base, head, confirm=(fresh, slow)).gate == "block"
    clean = build.run(LEDGER, seed=4, **pairs)  # type: ignore[arg-type]
    refuted = build.decide(LEDGER, base, head, confirm=(fresh, clean))
    assert (refuted.gate, build.row(refuted, 4).reasons[0]) == ("pass", "unconfirmed")


@pytest.mark.parametrize("sizes", [(4,), (4, 2, 2)])
def test_one_process_pair_calls_no_identical_commit_red_however_heavy_its_tails(sizes: tuple[int, ...]) -> None:
    red = 0
    for commit in range(6):
        kernels = Simulated(MI350X, rows=200, seed=commit)
        rng = np.random.default_rng([1, commit])
        drawn = {row: [kernels.draw(rng, row, [size]) for size in sizes] for row in range(200)}
        rows = list(drawn)
        estimates = ours._estimate(kernels, rows, drawn, Policy())
        pairs = [ours.pair(kernels, row) for row in rows]
        rulings = rule(pairs, estimates, policy=Policy(), controls=ours.NO_CONTROLS, confirmed={})
        red += any(ruling.verdict == "regressed" for ruling in rulings)
    assert red == 0
