"""From the rows that were taken in to one decision: times where there are any, machine code for what was spared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import click
import msgspec

from gate import store
from gate.analysis.confirm import idle
from gate.analysis.judge import Inputs, judge
from gate.codegen import checkout
from gate.codegen.diff import compare_all
from gate.codegen.keys import CompileCase, Unsupported, compile_case
from gate.commands import judge_files, judged, machine_code, printed
from gate.commands.codegen_inputs import comparable, thresholds
from gate.commands.run import POLICY_FILE, WAIVERS_FILE, read_frozen
from gate.model.codegen import CodegenRecord
from gate.model.decision import CodeEvidence, Coverage, Decision, Environment, Geomean
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.outcome import Outcome, Results
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import Shape
from gate.model.text import counted

NO_KERNEL_CHANGED = "no_kernel_changed"


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The checked rows of a bundle; `base` falls back on the stored baseline where no base was measured."""

    base: Results
    head: Results
    base_code: dict[str, CodegenRecord]
    head_code: dict[str, CodegenRecord]
    confirm: tuple[Results, Results] | None


def decide(
    places: Mapping[str, Path], *, root: Path, policy: Path | None, waivers: Path | None, arch: str, today: date
) -> Decision:
    """The decision. Raises UnusableInput where nothing was measured, or an input cannot be used."""
    taken = read(places, root=root, arch=arch)
    frame = Inputs(
        ledger=read_frozen(root),
        matrices=judge_files.read_matrices(root),
        base=taken.base,
        head=taken.head,
        policy=judge_files.read_policy(judge_files.beside(root, POLICY_FILE, given=policy)),
        waivers=judge_files.read_waivers(judge_files.beside(root, WAIVERS_FILE, given=waivers)),
        today=today,
        confirm=taken.confirm,
    )
    if not taken.head.outcomes and not taken.head_code:
        raise UnusableInput(Problem(what="the run measured and compiled nothing", file="", fix="see the run's log"))
    comparable(taken.base_code, taken.head_code)
    work = machine_code.plan(frame.ledger.shapes, _case_of(taken.head_code))
    wanted = {case.compile_key for case in work.cases.values()}
    base_code = {key: record for key, record in taken.base_code.items() if key in wanted}
    changes = compare_all(base_code, taken.head_code, thresholds(frame.policy.codegen)) if taken.head_code else []
    code = machine_code.evidence(work, {change.compile_key: change for change in changes})
    decision = combined(frame, taken, work=work, code=code, base_code=base_code)
    return printed.repeatable(decision, matrices=frame.matrices, given=printed.given_of(root, op_from=None))


def _case_of(records: Mapping[str, CodegenRecord]) -> Callable[[Shape], CompileCase | Unsupported]:
    of_checkout = any(record.toolchain.kernels == checkout.NAME for record in records.values())
    return checkout.compile_case if of_checkout else compile_case


def read(places: Mapping[str, Path], *, root: Path, arch: str) -> Taken:
    """The rows of each place that exists. Raises UnusableInput for a refused codegen record."""
    base = _results(places["base_results"]) or stored_results(root, arch)
    base_code = _code(places["base_code"]) or store.read_codegen(
        sorted(root.glob(f"*/baselines/{arch}/{store.CODEGEN_FILE}"))
    )
    confirm = _results(places["confirm_base"]), _results(places["confirm_head"])
    return Taken(
        base=base,
        head=_results(places["head_results"]) or Results(outcomes=()),
        base_code=base_code,
        head_code=_code(places["head_code"]),
        confirm=(confirm[0], confirm[1]) if confirm[0] is not None and confirm[1] is not None else None,
    )


def _results(path: Path) -> Results | None:
    return store.read_results(path) if path.is_file() else None


def stored_results(root: Path, arch: str) -> Results:
    """The stored baselines of one architecture or GPU under `root`, the ledgers of all ops or the folder of one."""
    stored = f"baselines/{arch}/{store.RESULTS_FILE}"
    files = sorted([*root.glob(f"*/{stored}"), *root.glob(stored)])
    return judge_files.merged(store.read_results(file) for file in files)


def _code(path: Path) -> dict[str, CodegenRecord]:
    return store.read_codegen([path]) if path.is_file() else {}


def combined(
    frame: Inputs,
    taken: Taken,
    *,
    work: machine_code.Plan,
    code: Mapping[str, CodeEvidence],
    base_code: Mapping[str, CodegenRecord],
) -> Decision:
    """Times decide wherever anything was timed; shapes with equal machine code and no time count as unchanged."""
    matrices, shapes = frame.matrices, frame.ledger.shapes
    spared = _spared(shapes, matrices, taken.head, code)
    timed = tuple(shape for shape in shapes if shape.shape_id not in spared)
    if taken.head.outcomes and timed:
        asked = msgspec.structs.replace(frame, ledger=_narrow(frame.ledger, timed), code=code)
        timing = judge(asked)
        if (why := idle(asked, timing)) is not None:
            raise UnusableInput(why)
        timing = uncontradicted(timing)
        if not spared:
            return timing
        rest = tuple(shape for shape in shapes if shape.shape_id in spared)
    else:
        timing, rest = None, shapes
    head_rows = machine_code.outcomes(rest, work, records=taken.head_code, matrices=matrices)
    base_rows = machine_code.outcomes(rest, work, records=base_code, matrices=matrices) if base_code else []
    of_code = judge(
        msgspec.structs.replace(
            frame,
            ledger=_narrow(frame.ledger, rest),
            base=Results(outcomes=tuple(base_rows)),
            head=Results(outcomes=tuple(head_rows)),
            confirm=None,
            code=code,
        )
    )
    return of_code if timing is None else merged(timing, of_code, order=[shape.shape_id for shape in shapes])


def uncontradicted(timing: Decision) -> Decision:
    """A pass becomes no verdict where code that no longer compiles is said to have run."""
    odd = [row for row in timing.rows if row.code is not None and row.code.verdict == "fail" and row.code.head is None]
    odd = [row for row in odd if row.verdict in ("unchanged", "improved", "inconclusive")]
    if not odd or timing.gate != "pass":
        return timing
    one, many = "row was timed whose kernel no longer compiles", "rows were timed whose kernels no longer compile"
    what = f"{counted(len(odd), one, many)}, such as {odd[0].shape_id}"
    next_step = "find out why compiling and measuring do not see the same kernels"
    return judged.withheld(timing, "no_longer_compiles", problems=[what], next_step=next_step)


def _narrow(ledger: Ledger, shapes: tuple[Shape, ...]) -> Ledger:
    return Ledger(shapes=shapes, problems=ledger.problems)


def _spared(
    shapes: tuple[Shape, ...], matrices: Mapping[str, Matrix], head: Results, code: Mapping[str, CodeEvidence]
) -> frozenset[str]:
    """The shapes that need no time: equal machine code on both sides, and no row that says anything else."""
    said: dict[tuple[str, str], list[Outcome]] = {}
    for row in head.outcomes:
        said.setdefault((row.shape_id, row.provider), []).append(row)
    found = set()
    for shape in shapes:
        candidate = matrices[shape.op_type].candidate_provider if shape.op_type in matrices else ""
        rows = said.get((shape.shape_id, candidate), [])
        same = shape.shape_id in code and code[shape.shape_id].verdict == "same"
        if same and all(row.benchmark_status == "skipped" for row in rows):
            found.add(shape.shape_id)
    return frozenset(found)


def merged(timing: Decision, spared: Decision, *, order: list[str]) -> Decision:
    """The timed decision with the spared rows in it; those are unchanged, so the gate is that of the times."""
    place = {shape_id: number for number, shape_id in enumerate(order)}
    counts = {name: timing.counts[name] + spared.counts[name] for name in timing.counts}
    cover = _summed(timing.coverage, spared.coverage)
    more = f"Not timed for byte for byte the same machine code: {counted(spared.counts['total'], 'more row')}."
    return msgspec.structs.replace(
        timing,
        rows=tuple(sorted((*timing.rows, *spared.rows), key=lambda row: place[row.shape_id])),
        counts=counts,
        coverage=cover,
        summary=f"{timing.summary} {more}",
    )


def _summed(one: Coverage, other: Coverage) -> Coverage:
    required, measured = one.required + other.required, one.measured + other.measured
    both = one.judged + other.judged
    return msgspec.structs.replace(
        one,
        required=required,
        measured=measured,
        judged=both,
        share=measured / required if required else 0.0,
        conclusive_share=both / measured if measured else 0.0,
    )


def nothing_changed() -> Decision:
    """The decision of a change that touches no kernel: a pass that claims nothing about speed."""
    return Decision(
        gate="pass",
        decision="tune_needed",
        headline="tune",
        reasons=(NO_KERNEL_CHANGED,),
        summary="No file was changed that a kernel could see: nothing was measured.",
        next_step="",
        kind="codegen",
        counts={"total": 0},
        coverage=Coverage(required=0, judged=0, measured=0, share=0.0, required_share=0.0),
        geomean=Geomean(),
        rows=(),
        environment=Environment(base={}, head={}),
    )


def told_before(out: Path) -> int:
    """The exit code of the decision that `take` left because there is nothing to judge."""
    decision = read_decision(out)
    click.echo(decision.summary, err=True)
    return judged.EXITS[decision.gate]


def read_decision(folder: Path) -> Decision:
    """The decision in `folder`. Raises UnusableInput if there is none, or it is not one."""
    return store.read_record(folder / judged.DECISION_FILE, Decision, what="a decision", fix="judge again")
