"""One change at a time: rows that are slower, faster, noisy or waived, and the verdict they must give."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from gate.model.waiver import Waiver
from tests.analysis import build

LEDGER = build.ledger()
BASE = build.run(LEDGER, seed=1)
HEAD = build.run(LEDGER, seed=2)


def test_identical_code_passes_with_every_row_unchanged() -> None:
    decision = build.decide(LEDGER, BASE, HEAD)
    assert (decision.gate, decision.decision, decision.headline) == ("pass", "promote", "promote")
    assert decision.counts["unchanged"] == decision.counts["total"] == 8
    assert all(row.mde is not None and 0.01 < row.mde < 0.05 for row in decision.rows)


@pytest.mark.parametrize("factor", [1.06, 1.2, 3.0, 10.0, 300.0])
def test_one_slower_row_blocks(factor: float) -> None:
    decision = build.decide(LEDGER, BASE, build.run(LEDGER, seed=2, factors={4: factor}))
    assert decision.gate == "block"
    assert decision.decision == "blocked"
    row = build.row(decision, 4)
    assert row.verdict == "regressed"
    assert row.reasons[0] == "slower"
    assert row.ratio == pytest.approx(factor, rel=0.01)
    assert decision.counts["regressed"] == 1


def test_a_short_kernel_has_no_absolute_floor() -> None:
    decision = build.decide(LEDGER, BASE, build.run(LEDGER, seed=2, factors={0: 1.5}))
    assert build.row(decision, 0).verdict == "regressed"


def test_three_slow_rows_are_not_outvoted() -> None:
    decision = build.decide(LEDGER, BASE, build.run(LEDGER, seed=2, factors={1: 2.0, 2: 2.0, 3: 2.0}))
    assert [build.row(decision, index).verdict for index in (1, 2, 3)] == ["regressed"] * 3
    assert decision.gate == "block"


def test_faster_rows_improve_and_do_not_hide_a_slower_one() -> None:
    decision = build.decide(LEDGER, BASE, build.run(LEDGER, seed=2, factors={0: 0.5, 1: 0.5, 2: 1.2}))
    assert [build.row(decision, index).verdict for index in (0, 1, 2)] == ["improved", "improved", "regressed"]
    assert decision.gate == "block"


def test_one_hiccup_does_not_hide_a_slowdown() -> None:
    base = BASE.outcomes[16]
    assert base.blocks_us is not None
    hiccup = ((base.blocks_us[0][0] * 2.2, base.blocks_us[0][1] * 2.2), *base.blocks_us[1:])
    damaged = build.edit(BASE, 4, LEDGER, blocks_us=hiccup)
    decision = build.decide(LEDGER, damaged, build.run(LEDGER, seed=2, factors={4: 1.1}))
    assert build.row(decision, 4).verdict == "regressed"


@pytest.mark.parametrize("seed", range(12))
def test_a_row_of_24_percent_noise_is_never_regressed(seed: int) -> None:
    base, head = (build.run(LEDGER, seed=seed * 2 + side, noise=0.24) for side in (0, 1))
    decision = build.decide(LEDGER, base, head)
    assert decision.counts["regressed"] == 0
    assert decision.gate == "no_verdict"
    assert "mostly_inconclusive" in decision.reasons


def test_a_noisy_row_ten_times_slower_blocks() -> None:
    base = build.run(LEDGER, seed=1, noise=0.15)
    decision = build.decide(LEDGER, base, build.run(LEDGER, seed=2, noise=0.15, factors={4: 10.0}))
    assert build.row(decision, 4).verdict == "regressed"


def test_one_percent_everywhere_blocks_by_the_geomean_alone() -> None:
    decision = build.decide(LEDGER, BASE, build.run(LEDGER, seed=2, every=1.008))
    assert decision.counts["regressed"] == 0
    assert decision.gate == "block"
    assert decision.reasons[0] == "geomean_slower"


def test_two_speeds_are_named() -> None:
    head = HEAD.outcomes[16].blocks_us
    assert head is not None
    two = tuple(tuple(visit * 1.3 for visit in block) if index % 2 else block for index, block in enumerate(head))
    decision = build.decide(LEDGER, BASE, build.edit(HEAD, 4, LEDGER, blocks_us=two))
    assert "bimodal" in build.row(decision, 4).reasons


def waiver(**fields: Any) -> Waiver:
    given: dict[str, Any] = {
        "shape_id": LEDGER.shapes[4].shape_id,
        "provider": "flydsl",
        "max_ratio": 1.25,
        "expires": date(2026, 6, 1),
        "reason": "accepted",
        "issue": "a link",
    }
    return Waiver(**{**given, **fields})


WAIVERS: list[tuple[Waiver, float, str, str, str]] = [
    (waiver(), 1.2, "waived", "used", "pass"),
    (waiver(), 1.4, "regressed", "exceeded", "block"),
    (waiver(expires=date(2026, 5, 31)), 1.2, "regressed", "expired", "block"),
    (waiver(provider="triton"), 1.2, "regressed", "unused", "block"),
    (waiver(), 1.0, "unchanged", "unused", "pass"),
]


@pytest.mark.parametrize(("given", "factor", "verdict", "state", "gate"), WAIVERS)
def test_waivers(given: Waiver, factor: float, verdict: str, state: str, gate: str) -> None:
    head = build.run(LEDGER, seed=2, factors={4: factor})
    decision = build.decide(LEDGER, BASE, head, waivers=(given,))
    assert (build.row(decision, 4).verdict, decision.gate) == (verdict, gate)
    assert [entry["state"] for entry in decision.waivers] == [state]
    assert decision.waivers[0]["reason"] == "accepted"


def test_blocks_that_disagree_are_told_and_those_that_agree_are_not() -> None:
    plain = build.row(build.decide(LEDGER, BASE, build.run(LEDGER, seed=2, factors={4: 1.2})), 4)
    assert (plain.verdict, plain.detail) == ("regressed", "")
    slow = build.run(LEDGER, seed=2, factors={4: 1.2})
    row = slow.outcomes[16]
    assert row.blocks_us is not None
    fast = tuple(visit * 0.8 for visit in row.blocks_us[0])
    mixed = build.row(build.decide(LEDGER, BASE, build.edit(slow, 4, LEDGER, blocks_us=(fast, *row.blocks_us[1:]))), 4)
    assert mixed.verdict == "regressed"
    assert mixed.detail.startswith("slower in 7 of 8 paired blocks, -4.")
