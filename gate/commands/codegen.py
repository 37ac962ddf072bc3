"""`gate codegen`: gfx950 machine code without a GPU, recorded once and compared against what was recorded before."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.codegen import aiter_cases, checkout, triton_cases
from gate.codegen.diff import compare_all, exit_code, tally
from gate.codegen.keys import CompileCase, Unsupported
from gate.commands import codegen_attribute, codegen_bisect, codegen_show, codegen_triage, machine_code
from gate.commands.codegen_inputs import (
    FILE,
    FOLDER,
    Kernels,
    codegen_policy,
    comparable,
    compiled,
    compiled_triton,
    hold,
    hold_ops,
    kernels_of,
    limit_options,
    python_of,
    read_records,
    thresholds,
)
from gate.model.codegen import CODEGEN_DISCLAIMER, CodegenChange, CodegenRecord
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.model.text import counted
from gate.resources import frozen_ledgers_dir

PLAN_FILE = "codegen_plan.jsonl"


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One line of codegen_plan.jsonl: which compile key serves a shape, or why none does."""

    op_type: str
    compile_key: str | None
    shape_id: str | None = None
    reason: str | None = None


@click.group("codegen", short_help="Record and compare gfx950 machine code without a GPU.")
def command() -> None:
    """Record and compare gfx950 machine code without a GPU."""


command.add_command(codegen_attribute.command)
command.add_command(codegen_bisect.command)
command.add_command(codegen_show.command)
command.add_command(codegen_triage.command)


@command.command()
@click.option("--out", type=FOLDER, help="Folder that gets <op>/codegen_records.jsonl.")
@click.option("--as-baseline", type=FOLDER, help="Ledgers that get <op>/baselines/<arch>/codegen_records.jsonl.")
@click.option("--op", "ops", multiple=True, help="An op; may be repeated. Default: all.")
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl. Default: those of this package.")
@click.option("--kernels", type=FOLDER, help="Kernels. Default: this package's own.")
@click.option("--flydsl-checkout", type=FOLDER, help="A FlyDSL checkout: its kernels instead, every family.")
@click.option("--python", help="Interpreter whose flydsl compiles. Default: this one.")
@click.option("--wheel", help="A flydsl version instead, installed once into a managed environment.")
@click.option("--triton", is_flag=True, help="The Triton baselines too, with the interpreter's Triton and torch.")
@click.option("--aiter-checkout", type=FOLDER, help="AITER's Triton kernels too, from this checkout; needs torch.")
@limit_options
def record(
    out: Path | None,
    as_baseline: Path | None,
    ops: tuple[str, ...],
    ledgers: Path | None,
    kernels: Path | None,
    flydsl_checkout: Path | None,
    python: str | None,
    wheel: str | None,
    triton: bool,
    aiter_checkout: Path | None,
    **limits: Any,
) -> None:
    """Compile every shape of the ledgers, one compile per key, and write the records.

    With --flydsl-checkout, ops that no ledger names are compiled for a few cases that stand for them. Finished cases
    are kept in the user's cache, by content: an interrupted run goes on where it was.
    """
    if (out is None) == (as_baseline is None):
        raise WrongUsage(Problem(what="record needs exactly one of --out and --as-baseline", file=""))
    source = kernels_of(kernels, flydsl_checkout)
    shapes = read_shapes(ledgers or as_baseline or frozen_ledgers_dir(), ops, source)
    work = machine_code.plan(shapes, source.case_of)
    standing = [] if not source.is_checkout else representative(work, ops)
    if as_baseline is not None:
        hold_ops(as_baseline, {shape.op_type for shape in shapes})
    else:
        hold(out)
    with_flydsl = python_of(python, wheel)
    records, _ = compiled([*work.distinct(), *standing], source, with_flydsl, limits)
    if triton:
        records += compiled_triton(machine_code.plan(shapes, triton_cases.compile_case).distinct(), with_flydsl, limits)
    if aiter_checkout is not None:
        calls = machine_code.plan(shapes, aiter_cases.compile_case).distinct()
        records += compiled_triton(calls, with_flydsl, limits, aiter=aiter_checkout)
    if as_baseline is not None:
        write_baseline(as_baseline, records, limits["arch"])
        click.echo(f"recorded; lock it with: {shlex.join(['gate', 'ledger', 'freeze', str(as_baseline)])}", err=True)
    elif out is not None:
        machine_code.write_records(out, records)
        write_plan(out, shapes, work, standing)
    tell_recorded(records, work, shapes=len(shapes), standing=len(standing))


def read_shapes(ledgers: Path, ops: tuple[str, ...], source: Kernels) -> list[Shape]:
    """The shapes of `<op>/shape_ledger.jsonl`, of all ops or of those named.

    An op of a checkout needs no ledger. Raises UnusableInput for a refused row, WrongUsage for an unknown op.
    """
    found = {path.parent.name: path for path in sorted(ledgers.glob(f"*/{store.LEDGER_FILE}"))}
    if not found and not source.is_checkout:
        fix = "name a folder of ledgers with --ledgers"
        raise UnusableInput(Problem(what=f"no <op>/{store.LEDGER_FILE}", file=str(ledgers), fix=fix))
    known = [*found, *(checkout.KERNELS if source.is_checkout else ())]
    unknown = sorted(set(ops) - {"all", *known})
    if unknown:
        what = f"no op {', '.join(unknown)}; the ops are {', '.join(sorted(set(known)))}"
        raise WrongUsage(Problem(what=what, file=""))
    wanted = found if not ops or "all" in ops else {op: found[op] for op in ops if op in found}
    read = [store.read_ledger(path) for path in wanted.values()]
    problems = [problem for ledger in read for problem in ledger.problems]
    if problems:
        raise UnusableInput(*problems)
    return [shape for ledger in read for shape in ledger.shapes]


def representative(work: machine_code.Plan, ops: Sequence[str]) -> list[CompileCase]:
    """The cases that stand for the ops of a checkout that no ledger shape has a case for."""
    served = {case.op_type for case in work.cases.values()}
    wanted = set(checkout.KERNELS) if not ops or "all" in ops else set(ops) & set(checkout.KERNELS)
    return checkout.representative(wanted - served)


def write_baseline(ledgers: Path, records: list[CodegenRecord], arch: str) -> None:
    """One file per op, without compile times: the same toolchain gives the same bytes on any machine."""
    for op in sorted({one.op_type for one in records}):
        rows = [msgspec.structs.replace(one, compile_seconds=None) for one in records if one.op_type == op]
        rows.sort(key=lambda row: row.compile_key)
        store.write_jsonl(ledgers / op / "baselines" / arch / store.CODEGEN_FILE, rows)


def write_plan(out: Path, shapes: list[Shape], work: machine_code.Plan, standing: list[CompileCase]) -> None:
    """Which key serves which shape: `shape_id` is null where the case stands for its op."""
    lines = [_planned(shape, work.cases.get(shape.shape_id) or work.refused[shape.shape_id]) for shape in shapes]
    lines += [Planned(op_type=case.op_type, compile_key=case.compile_key) for case in standing]
    store.write_jsonl(out / PLAN_FILE, lines)


def _planned(shape: Shape, case: CompileCase | Unsupported) -> Planned:
    key, reason = (case.compile_key, None) if isinstance(case, CompileCase) else (None, case.reason)
    return Planned(op_type=shape.op_type, compile_key=key, shape_id=shape.shape_id, reason=reason)


def tell_recorded(records: list[CodegenRecord], work: machine_code.Plan, *, shapes: int, standing: int) -> None:
    statuses = Counter(one.status for one in records)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "none"
    origin = f" ({len(records) - standing} of the ledgers, {standing} that stand for their op)" if standing else ""
    click.echo(
        f"{counted(shapes, 'shape')}, {counted(len(records), 'compile key')}{origin}: {counts}; "
        f"{counted(len(work.refused), 'shape has', 'shapes have')} no code",
        err=True,
    )
    reasons = Counter(f"{refused.op_type} {refused.dtype}: {refused.reason}" for refused in work.refused.values())
    for reason, count in sorted(reasons.items()):
        click.echo(f"  {count} x {reason}", err=True)
    for one in records:
        if one.status != "ok":
            click.echo(f"  {one.compile_key}: {one.status}: {one.error}", err=True)


@command.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("head", type=click.Path(path_type=Path))
@click.option("--arch", default="gfx950", show_default=True, help="Which baseline of a folder of ledgers.")
@click.option("--policy", type=FILE, help="Policy file. Default: the defaults.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def diff(base: Path, head: Path, arch: str, policy: Path | None, as_json: bool) -> int:
    """Compare two recorded folders: what differs, worst first, then counts by family.

    Exit code 1 when something fails that compiled or fitted before, 2 when a kernel was not compiled or breaks on
    both sides.
    """
    rules, accept = codegen_policy(policy)
    before, after = read_records(base, arch), read_records(head, arch)
    comparable(before, after)
    changes = compare_all(before, after, thresholds(rules))
    if as_json:
        click.echo(store.encode({"changes": changes, "counts": tally(changes)}).decode("utf-8"))
    else:
        tell_changes(changes)
    return exit_code(changes, accept_still_failing=accept)


def tell_changes(changes: Sequence[CodegenChange]) -> None:
    """What is not the same, worst first, and the counts of every family."""
    order = {verdict: rank for rank, verdict in enumerate(tally(changes))}
    for change in sorted(changes, key=lambda change: order[change.verdict]):
        if change.verdict == "same":
            continue
        click.echo(f"{change.verdict:13} {change.compile_key}")
        for finding in change.findings:
            click.echo(f"{'':13} {finding.text}")
    families: dict[str, list[CodegenChange]] = {}
    for change in changes:
        op = change.compile_key.partition("/")[0]
        families.setdefault(checkout.family_of(op), []).append(change)
    if len(families) > 1:
        for family, part in sorted(families.items()):
            click.echo(f"{family}: {_counts(part)}")
    click.echo(f"{counted(len(changes), 'kernel')}: {_counts(changes)}" if changes else "nothing to compare")
    click.echo(CODEGEN_DISCLAIMER)


def _counts(changes: Iterable[CodegenChange]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in tally(changes).items())
