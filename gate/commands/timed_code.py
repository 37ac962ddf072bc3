"""The machine-code half of a timed run: evidence beside the times, where the flydsl that is timed can compile."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gate.codegen.diff import compare_all
from gate.commands import codegen_sides, judged, machine_code
from gate.commands.codegen_inputs import thresholds
from gate.commands.run import write_changes
from gate.commands.timed_work import Work
from gate.model.decision import CodeEvidence, Decision
from gate.model.policy import Policy
from gate.model.problem import Problem, UnusableInput
from gate.replay.arms import ArmSpec
from gate.replay.blocks import BASE, HEAD

CANDIDATE = "flydsl"


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine code says of each shape, and which sides were compiled; None where nothing was."""

    of_shape: dict[str, CodeEvidence] = {}
    sides: codegen_sides.Sides | None = None


def evidence(
    given: Mapping[str, Any], work: Work, policy: Policy, *, ledgers: Path, out: Path, wanted: bool, resume: bool
) -> Code:
    """What the machine code says of each shape whose candidate is FlyDSL; empty, with a line, where there is none."""
    shapes = [
        shape for shape in work.inputs.shapes if work.inputs.matrices[shape.op_type].candidate_provider == CANDIDATE
    ]
    if not wanted or not shapes:
        return Code()
    named = any(given[name] is not None for name in (*codegen_sides.HEAD_OPTIONS, *codegen_sides.COMPILED_BASE))
    if not named and any(_elsewhere(spec) for spec in work.arms.values()):
        return _without("the flydsl that is timed lies on a path: name it with --flydsl-checkout and --base-checkout")
    try:
        sides = codegen_sides.sides_of(given if named else {**given, **_pythons(work)})
        plan = machine_code.plan(shapes, sides.head.kernels.case_of)
        if not plan.cases:
            return Code()
        head = codegen_sides.head_records(plan, sides, out=out, resume=resume)
        base = codegen_sides.base_records(plan, sides, ledgers=ledgers, out=out, head=head)
    except UnusableInput as error:
        return _without(error.problems[0].what)
    changes = compare_all(base, head, thresholds(policy.codegen))
    pages = write_changes(changes, out)
    found = machine_code.evidence(plan, {change.compile_key: change for change in changes}, pages)
    return Code(of_shape=found, sides=sides)


def repeating(decision: Decision, code: Code, *, ledgers: Path, policy: Path | None) -> Decision:
    """The decision, whose commands compile again what this run compiled."""
    if code.sides is None:
        return decision
    commands = codegen_sides.repeating(decision.commands, code.sides, ledgers=ledgers, policy=policy)
    return msgspec.structs.replace(decision, commands=commands)


def _elsewhere(spec: ArmSpec) -> bool:
    return bool(spec.path or spec.ld)


def _pythons(work: Work) -> dict[str, Any]:
    """The interpreters of the arms, head's unless it is this one; base is compiled only where it has one of its own."""
    head, base = work.arms[HEAD].python, work.arms[BASE].python
    return {
        "python": None if head == sys.executable else head,
        "base_python": base if work.both and base != head else None,
    }


def _without(why: str) -> Code:
    judged.warn([Problem(what=f"no machine code beside the times: {why}", file="")])
    return Code()
