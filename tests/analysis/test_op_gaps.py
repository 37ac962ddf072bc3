"""One op that is unclear, has lost its baseline or has no kernel is never drowned by the ops that are fine."""

from __future__ import annotations

import pytest

from gate.analysis.judge import Inputs, judge
from gate.model.decision import CodeEvidence, Decision
from gate.model.ledger import Ledger
from gate.model.outcome import Results
from tests.analysis import build

BIG = build.ledger(40)
SMALL = build.ledger(4, op_type="vec_add")
BOTH = Ledger(shapes=(*BIG.shapes, *SMALL.shapes))
MATRICES = {"rmsnorm": build.matrix(), "vec_add": build.matrix("vec_add")}


def decide(*, base: Results, head: Results, small: str = "same") -> Decision:
    verdict_of = {"rmsnorm": "same", "vec_add": small}
    code = {one.shape_id: CodeEvidence(compile_key=one.op_type, verdict=verdict_of[one.op_type]) for one in BOTH.shapes}
    return judge(Inputs(ledger=BOTH, matrices=MATRICES, base=base, head=head, today=build.TODAY, code=code))


def test_all_fine_passes() -> None:
    assert decide(base=build.compiled(BOTH), head=build.compiled(BOTH)).gate == "pass"


def test_an_op_that_is_only_worth_a_look_is_no_pass() -> None:
    decision = decide(base=build.compiled(BOTH), head=build.compiled(BOTH), small="warn")
    assert decision.counts["inconclusive"] == 4
    assert decision.gate == "no_verdict"
    assert "mostly_inconclusive" in decision.reasons


@pytest.mark.parametrize(("known", "gate"), [(3, "pass"), (2, "no_verdict"), (1, "no_verdict")])
def test_an_op_that_lost_much_of_its_baseline_is_no_pass(known: int, gate: str) -> None:
    part = Ledger(shapes=(*BIG.shapes, *SMALL.shapes[:known]))
    decision = decide(base=build.compiled(part), head=build.compiled(BOTH))
    assert decision.counts["new"] == 4 - known
    assert decision.gate == gate
    assert ("mostly_new" in decision.reasons) is (gate == "no_verdict")


def test_an_op_that_was_not_looked_at_is_no_pass() -> None:
    skipped = build.compiled(SMALL, benchmark_status="skipped", timing_method=None)
    head = Results(outcomes=(*build.compiled(BIG).outcomes, *skipped.outcomes))
    decision = decide(base=head, head=head)
    assert decision.counts["not_run"] == 4
    assert (decision.gate, decision.coverage.required) == ("no_verdict", 44)


def test_a_baseline_of_another_arch_is_not_comparable() -> None:
    decision = decide(base=build.compiled(BOTH, arch="gfx942"), head=build.compiled(BOTH))
    assert decision.gate == "no_verdict"
    assert decision.counts["not_comparable"] == 44
    assert "arch" in decision.environment.differences
