"""`gate run`: the main job, from the frozen ledgers to a rendered decision; with --replay it measures on GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.codegen.diff import compare_all
from gate.commands import begun, codegen_sides, judge_files, judged, machine_code, timed_options
from gate.commands.codegen_inputs import thresholds
from gate.commands.codegen_show import write_pages
from gate.commands.ledger_files import lock_problems, op_folders
from gate.model.codegen import CodegenChange
from gate.model.decision import Decision
from gate.model.ledger import Ledger
from gate.model.outcome import Outcome, Results
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.model.text import counted
from gate.replay import run_folder
from gate.resources import frozen_ledgers_dir

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
POLICY_FILE, WAIVERS_FILE = "policy.toml", "waivers.toml"
PAGES = "pages"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What part of the ledgers is asked for; empty means all of it."""

    ops: tuple[str, ...]
    shapes: tuple[str, ...]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Where the inputs lie and what is asked of them; `sources` are the values of `codegen_sides.side_options`."""

    ledgers: Path
    out: Path
    limits: Limits
    sources: dict[str, Any]
    policy: Path | None
    waivers: Path | None
    resume: bool


@click.command(short_help="The main job: compile or measure the frozen ledgers, judge, report.")
@click.option("--out", type=FOLDER, default=Path("gate-out"), show_default=True, help="Folder for all that is written.")
@click.option(
    "--op",
    "ops",
    multiple=True,
    help="An op of the ledgers, or all; may be repeated. Default: those that the kernels have code for, or that the "
    "candidate serves.",
)
@click.option("--shape", "shapes", multiple=True, help="A shape_id; may be repeated. Default: all of the op.")
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl. Default: ./frozen_ledgers or ours.")
@codegen_sides.side_options
@timed_options.timed_options
@click.option("--policy", type=FILE, help=f"Policy. Default: {POLICY_FILE} beside the ledgers, if there.")
@click.option("--waivers", type=FILE, help=f"Waivers. Default: {WAIVERS_FILE} beside the ledgers, if there.")
@click.option("--resume", is_flag=True, help="Go on after an interruption: keep what is finished in --out.")
@click.option("--json", "as_json", is_flag=True, help="Print decision.json instead of the summary.")
def command(
    out: Path,
    ops: tuple[str, ...],
    shapes: tuple[str, ...],
    ledgers: Path | None,
    policy: Path | None,
    waivers: Path | None,
    resume: bool,
    as_json: bool,
    **sources: Any,
) -> int:
    """Compiles every frozen shape with the installed flydsl, compares the machine code with base's, and decides.

    The kernels are the gate's canaries, or those of --flydsl-checkout. Base is the stored baseline, the records in
    --base, or compiled now: --base-checkout, --base-python or --base-wheel; what these leave open is as for head.
    Nothing is launched and no time is taken: no GPU is needed.

    With --replay it measures instead: --head SPEC, --base SPEC and the baselines in one session on this machine's
    GPUs, look by look; suspects again in fresh processes; then it judges times, with the machine code as evidence.
    Without --base only the standing against the baselines is told.

    Exit codes: 0 pass, 1 block, 2 no verdict, 64 wrong usage.
    """
    root = ledgers or default_ledgers()
    common: dict[str, Any] = {
        "ledgers": root,
        "out": out,
        "limits": Limits(ops=ops, shapes=shapes),
        "resume": resume,
        "policy": judge_files.beside(root, POLICY_FILE, given=policy),
        "waivers": judge_files.beside(root, WAIVERS_FILE, given=waivers),
    }
    timed = timed_options.taken(sources)
    if timed is not None:
        return measured(timed, sources, common, as_json=as_json)
    sources["base"] = FOLDER.convert(sources["base"], None, None) if sources["base"] is not None else None
    with store.output_lock(out):
        decision = guarded(Job(sources=sources, **common))
    judged.show(decision, out, as_json=as_json)
    return judged.EXITS[decision.gate]


def measured(timed: dict[str, Any], sources: dict[str, Any], common: dict[str, Any], *, as_json: bool) -> int:
    """The run on GPUs; its exit code."""
    from gate.commands import timed_run

    job = timed_run.TimedJob(base=sources["base"], timed=timed, sources={**sources, "base": None}, **common)
    with store.output_lock(job.out):
        decision = timed_run.run(job)
    judged.show(decision, job.out, as_json=as_json)
    posted = timed_run.publish(job) if timed["publish"] else 0
    return judged.EXITS[decision.gate] or posted


def default_ledgers() -> Path:
    """The ledgers of the folder one stands in, else those that came with the package."""
    here = Path("frozen_ledgers")
    return here if here.is_dir() else frozen_ledgers_dir()


def guarded(job: Job) -> Decision:
    """The decision, written; an unusable input leaves a written no-verdict behind before it is raised.

    Raises, before anything is removed, as `run_folder.claim`, and WrongUsage where an input lies in what is cleared.
    """
    asked = begun.asked_of(job.sources, job.ledgers, ops=job.limits.ops, shapes=job.limits.shapes)
    run_folder.claim(job.out, run_folder.CODE, asked=asked, resume=job.resume, anew=True)
    cleared = [job.out / name for name in ("results", "isa", PAGES, codegen_sides.BASE_FOLDER)]
    codegen_sides.outside(job.sources, [*cleared, codegen_sides.compiled_folder(job.out)])
    judged.clear(job.out)
    for earlier in cleared:
        store.remove_folder(earlier)
    begun.code(job.out, asked)
    try:
        decision = decide(job)
    except UnusableInput as error:
        judged.write(judged.unusable(error.problems), job.out)
        raise
    judged.write(decision, job.out)
    return decision


def decide(job: Job) -> Decision:
    """Read, compile, write the results, compare, judge."""
    from gate.analysis.judge import Inputs, judge

    policy = judge_files.read_policy(job.policy)
    waivers = judge_files.read_waivers(job.waivers)
    sides = codegen_sides.sides_of(job.sources)
    frozen = read_frozen(job.ledgers)
    ledger = narrowed(frozen, job.limits, sides.ops)
    judged.warn(ledger.problems)
    matrices = judge_files.read_matrices(job.ledgers)
    unlisted = sorted({shape.op_type for shape in ledger.shapes} - matrices.keys())
    if unlisted:
        raise UnusableInput(Problem(what=f"no {store.MATRIX_FILE} for {', '.join(unlisted)}", file=str(job.ledgers)))
    work = machine_code.plan(ledger.shapes, sides.head.kernels.case_of)
    head = codegen_sides.head_records(work, sides, out=job.out, resume=job.resume)
    base = codegen_sides.base_records(work, sides, ledgers=job.ledgers, out=job.out, head=head)
    changes = compare_all(base, head, thresholds(policy.codegen))
    pages = write_changes(changes, job.out)
    head_rows = machine_code.outcomes(ledger.shapes, work, records=head, matrices=matrices)
    write_results(job.out, head_rows, ledger.shapes)
    base_rows = machine_code.outcomes(ledger.shapes, work, records=base, matrices=matrices) if base else []
    decision = judge(
        Inputs(
            ledger=ledger,
            matrices=matrices,
            base=Results(outcomes=tuple(base_rows)),
            head=Results(outcomes=tuple(head_rows)),
            policy=policy,
            waivers=waivers,
            today=datetime.now(UTC).date(),
            code=machine_code.evidence(work, {change.compile_key: change for change in changes}, pages),
        )
    )
    commands = codegen_sides.repeating(decision.commands, sides, ledgers=job.ledgers, policy=job.policy)
    return msgspec.structs.replace(decision, scope=scope(frozen, ledger), commands=commands)


def write_changes(changes: Sequence[CodegenChange], out: Path) -> dict[str, str]:
    """A page under `out` for every kernel that changed; the page of each key, relative to `out`."""
    names = write_pages(changes, out / PAGES, codegen_sides.assembly_folders(out))
    return {key: f"{PAGES}/{name}" for key, name in names.items()}


def scope(frozen: Ledger, judged_part: Ledger) -> str:
    """What of the frozen ledgers this run leaves out, in words; empty when it leaves out nothing."""
    taken = {shape.op_type for shape in judged_part.shapes}
    others = len({shape.op_type for shape in frozen.shapes} - taken)
    if len(judged_part.shapes) == len(frozen.shapes):
        return ""
    left = f"; {counted(others, 'other op is', 'other ops are')} not part of this run" if others else ""
    return (
        f"{len(judged_part.shapes)} of {counted(len(frozen.shapes), 'frozen shape')} ({', '.join(sorted(taken))}){left}"
    )


def read_frozen(root: Path) -> Ledger:
    """All ledgers under `root`; one that is not as its lock says, or has no lock, is a problem of the ledger."""
    ledger = judge_files.read_ledgers(root)
    edited = [problem for folder in op_folders(root) for problem in lock_problems(folder, sources=False)]
    return Ledger(shapes=ledger.shapes, problems=(*ledger.problems, *edited))


def narrowed(ledger: Ledger, limits: Limits, served: Sequence[str]) -> Ledger:
    """The part of the ledger that is asked for, by default the ops that are `served`.

    Raises WrongUsage for an op or a shape the ledger does not hold.
    """
    ops = {shape.op_type for shape in ledger.shapes}
    ids = {shape.shape_id for shape in ledger.shapes}
    no_ops = [op for op in limits.ops if op not in ops | {"all"}]
    unknown = no_ops + [one for one in limits.shapes if one not in ids]
    if unknown:
        known = f"the ops are {', '.join(sorted(ops))}" if no_ops else "'gate ledger show' lists the shapes"
        raise WrongUsage(Problem(what=f"not in the ledgers: {', '.join(unknown)}", file="", fix=known))
    kept = tuple(shape for shape in ledger.shapes if _asked(shape, limits, served))
    if not kept:
        raise WrongUsage(Problem(what="none of these shapes is of these ops", file="", fix="drop --op or --shape"))
    return Ledger(shapes=kept, problems=ledger.problems)


def _asked(shape: Shape, limits: Limits, served: Sequence[str]) -> bool:
    of_op = shape.op_type in (limits.ops or served) or "all" in limits.ops
    return of_op and (not limits.shapes or shape.shape_id in limits.shapes)


def write_results(out: Path, rows: list[Outcome], shapes: tuple[Shape, ...]) -> None:
    """One benchmark_results.jsonl (and .csv) per op."""
    op_of: Mapping[str, str] = {shape.shape_id: shape.op_type for shape in shapes}
    by_op: dict[str, list[Outcome]] = {}
    for row in rows:
        by_op.setdefault(op_of[row.shape_id], []).append(row)
    for op, outcomes in by_op.items():
        store.write_results(out / "results" / op / store.RESULTS_FILE, outcomes)
