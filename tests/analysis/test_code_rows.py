"""Machine code without times: what its findings mean for rows and for the run."""

from __future__ import annotations

import msgspec
import pytest

from gate.model.decision import CodeEvidence, CodeSide
from gate.model.outcome import Results
from gate.model.policy import CodegenPolicy, Policy
from gate.render import machine_code
from tests.analysis import build

LEDGER = build.ledger(4)
SIDE = CodeSide(
    vgpr=40, agpr=0, sgpr=20, spills=0, scratch_bytes=0, lds_bytes=0, waves_per_simd=8, instructions=500, isa_sha="a"
)


def run(**fields: object) -> Results:
    return build.compiled(LEDGER, **fields)


def code(verdict: str, **side: object) -> dict[str, CodeEvidence]:
    """Evidence for row 0; the others are the same code."""
    head = msgspec.structs.replace(SIDE, **side)
    told = CodeEvidence(compile_key="k", verdict=verdict, findings=("7 registers spill",), base=SIDE, head=head)
    same = CodeEvidence(compile_key="k", verdict="same")
    return {one.shape_id: told if index == 0 else same for index, one in enumerate(LEDGER.shapes)}


@pytest.mark.parametrize(
    ("verdict", "row", "reason", "gate"),
    [
        ("same", "unchanged", "same_code", "pass"),
        ("info", "unchanged", "code_differs", "pass"),
        ("warn", "inconclusive", "codegen_warn", "pass"),
        ("fail", "regressed", "codegen_fail", "block"),
        ("new", "new", "no_baseline", "pass"),
        ("fixed", "fixed", "fixed", "pass"),
        ("missing", "missing", "missing", "no_verdict"),
    ],
)
def test_each_code_verdict(verdict: str, row: str, reason: str, gate: str) -> None:
    decision = build.decide(LEDGER, run(), run(), code=code(verdict))
    found = build.row(decision, 0)
    assert (found.verdict, found.reasons, decision.gate) == (row, (reason,), gate)
    assert decision.kind == "codegen"
    assert (found.ratio, found.head_us, found.method) == (None, None, "codegen")


def test_machine_code_never_promotes_and_says_that_no_time_was_measured() -> None:
    decision = build.decide(LEDGER, run(), run(), code=code("same"))
    assert (decision.decision, decision.headline) == ("tune_needed", "tune")
    assert decision.reasons == ("no_time_measured",)
    assert "no time was measured" in decision.summary


@pytest.mark.parametrize(("choice", "verdict"), [("block", "regressed"), ("unchanged", "unchanged")])
def test_policy_decides_what_a_warning_means(choice: str, verdict: str) -> None:
    policy = Policy(codegen=msgspec.convert({"warn": choice}, CodegenPolicy))
    assert build.row(build.decide(LEDGER, run(), run(), code=code("warn"), policy=policy), 0).verdict == verdict


def test_without_evidence_equal_hashes_are_the_same_code_and_others_are_open() -> None:
    assert build.decide(LEDGER, run(), run()).counts["unchanged"] == 4
    decision = build.decide(LEDGER, run(), run(isa_sha="b"))
    assert decision.counts["inconclusive"] == 4
    assert decision.gate == "no_verdict"


def test_a_kernel_that_no_longer_compiles_is_newly_failed() -> None:
    head = build.edit(run(), 0, LEDGER, benchmark_status="failed", timing_method=None)
    decision = build.decide(LEDGER, run(), head, code=code("fail"))
    assert (build.row(decision, 0).verdict, decision.gate) == ("newly_failed", "block")


def test_no_base_is_no_comparison() -> None:
    decision = build.decide(LEDGER, Results(outcomes=()), run())
    assert (decision.counts["new"], decision.gate, decision.kind) == (4, "no_verdict", "codegen")


def test_times_and_machine_code_are_never_mixed_silently() -> None:
    timed = build.run(LEDGER, seed=1)
    decision = build.decide(LEDGER, run(), timed)
    assert {row.reasons[0] for row in decision.rows} == {"mixed_kinds"}
    assert decision.gate == "no_verdict"
    some = Results(outcomes=(*run().outcomes[:2], *timed.outcomes[8:]))
    decision = build.decide(LEDGER, some, some)
    assert (decision.gate, decision.kind) == ("no_verdict", "timing")
    assert "mixed_kinds" in decision.reasons


def test_code_findings_classify_a_row_with_and_without_a_time() -> None:
    evidence = code("fail", spills=7)
    assert build.row(build.decide(LEDGER, run(), run(), code=evidence), 0).classification == "flydsl_codegen_gap"
    base, head = (build.run(LEDGER, seed=seed, factors={0: 1.4}) for seed in (1, 2))
    found = build.row(build.decide(LEDGER, base, head, code=evidence), 0)
    assert found.classification == "flydsl_codegen_gap"
    assert found.evidence.startswith("7 registers spill; ")
    assert "nothing spills" in found.likely_fix


def test_the_command_compiles_the_kernel_that_the_texts_call_worst() -> None:
    first, *others = LEDGER.shapes
    one = CodeEvidence(compile_key="a", verdict="fail", findings=("spills",), base=SIDE, head=SIDE)
    three = msgspec.structs.replace(one, compile_key="z")
    evidence = {first.shape_id: one, **{shape.shape_id: three for shape in others}}
    decision = build.decide(LEDGER, run(), run(), code=evidence)
    assert [machine_code.kernels(decision)[0].evidence.compile_key] == ["z"]
    again, show = decision.commands
    assert min(shape.shape_id for shape in others) in again.line
    assert " z " in show.line
    assert "page of the worst kernel" in decision.next_step


def test_what_spills_is_worse_than_what_loses_waves_in_more_rows() -> None:
    first, *others = LEDGER.shapes
    spills, slower = (msgspec.structs.replace(SIDE, waves_per_simd=4, spills=n) for n in (234, 0))
    one = CodeEvidence(compile_key="z", verdict="fail", findings=("spills",), base=SIDE, head=spills)
    three = CodeEvidence(compile_key="a", verdict="fail", findings=("a wave is lost",), base=SIDE, head=slower)
    evidence = {first.shape_id: one, **{shape.shape_id: three for shape in others}}
    decision = build.decide(LEDGER, run(), run(), code=evidence)
    assert machine_code.kernels(decision)[0].evidence.compile_key == "z"
    again, show = decision.commands
    assert first.shape_id in again.line and " z " in show.line
    gone = {**evidence, others[0].shape_id: CodeEvidence(compile_key="g", verdict="fail", base=SIDE)}
    found = machine_code.kernels(build.decide(LEDGER, run(), run(), code=gone))
    assert [kernel.evidence.compile_key for kernel in found] == ["g", "z", "a"]
