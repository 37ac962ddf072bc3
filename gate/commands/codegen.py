"""`gate codegen`: gfx950 machine code without a GPU, recorded once and compared against what was recorded before."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import click
import msgspec

from gate import store
from gate.codegen import compile as compiler
from gate.codegen.diff import compare_all, exit_code, tally
from gate.commands import machine_code
from gate.model.codegen import CODEGEN_DISCLAIMER, CodegenChange, CodegenRecord
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.resources import frozen_ledgers_dir

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group()
def command() -> None:
    """Record and compare gfx950 machine code without a GPU."""


def cache_home() -> Path:
    """Where compiled cases and managed environments are kept between runs: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "flydsl-gate"


@command.command()
@click.option("--out", type=FOLDER, help="Folder that gets <op>/codegen_records.jsonl.")
@click.option("--as-baseline", type=FOLDER, help="Ledgers that get <op>/baselines/<arch>/codegen_records.jsonl.")
@click.option("--op", "ops", multiple=True, help="An op of the ledgers; default all.")
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl; default those of this package.")
@click.option("--python", default=sys.executable, help="Interpreter whose flydsl compiles; default this one.")
@click.option("--kernels", type=FOLDER, default=compiler.CANARIES, help="Kernels; default this package's own.")
@click.option("--arch", default="gfx950", show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes; default one per core.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=120.0, show_default=True, help="Seconds a case may take."
)
def record(
    out: Path | None,
    as_baseline: Path | None,
    ops: tuple[str, ...],
    ledgers: Path | None,
    python: str,
    kernels: Path,
    arch: str,
    jobs: int | None,
    timeout: float,
) -> None:
    """Compile every shape of the ledgers, one compile per key, and write the records."""
    if (out is None) == (as_baseline is None):
        raise WrongUsage(Problem(what="record needs exactly one of --out and --as-baseline", file=""))
    how = machine_code.Compiler(python=python, kernels=kernels, arch=arch, jobs=jobs, timeout_s=timeout)
    shapes = read_shapes(ledgers or as_baseline or frozen_ledgers_dir(), ops)
    work = machine_code.plan(shapes)
    toolchain = machine_code.find_toolchain(how)
    records = machine_code.record(work.distinct(), how, toolchain=toolchain, cache=cache_home() / "codegen")
    if as_baseline is not None:
        write_baseline(as_baseline, records, arch)
    elif out is not None:
        machine_code.write_records(out, records)
    tell_recorded(records, work, shapes=len(shapes))


def read_shapes(ledgers: Path, ops: tuple[str, ...]) -> list[Shape]:
    """The shapes of `<op>/shape_ledger.jsonl`. Raises UnusableInput for a refused row, WrongUsage for an unknown op."""
    found = {path.parent.name: path for path in sorted(ledgers.glob(f"*/{store.LEDGER_FILE}"))}
    if not found:
        raise UnusableInput(
            Problem(
                what=f"no <op>/{store.LEDGER_FILE}", file=str(ledgers), fix="name a folder of ledgers with --ledgers"
            )
        )
    unknown = sorted(set(ops) - {"all", *found})
    if unknown:
        what = f"no ledger for {', '.join(unknown)}; the ops are {', '.join(found)}"
        raise WrongUsage(Problem(what=what, file=str(ledgers)))
    wanted = found if not ops or "all" in ops else {op: found[op] for op in ops}
    read = [store.read_ledger(path) for path in wanted.values()]
    problems = [problem for ledger in read for problem in ledger.problems]
    if problems:
        raise UnusableInput(*problems)
    return [shape for ledger in read for shape in ledger.shapes]


def write_baseline(ledgers: Path, records: list[CodegenRecord], arch: str) -> None:
    """One file per op, without compile times: the same toolchain gives the same bytes on any machine."""
    for op in sorted({one.op_type for one in records}):
        rows = [msgspec.structs.replace(one, compile_seconds=None) for one in records if one.op_type == op]
        rows.sort(key=lambda row: row.compile_key)
        store.write_jsonl(ledgers / op / "baselines" / arch / store.CODEGEN_FILE, rows)


def tell_recorded(records: list[CodegenRecord], work: machine_code.Plan, *, shapes: int) -> None:
    statuses = Counter(one.status for one in records)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "none"
    click.echo(
        f"{shapes} shapes, {len(records)} compile keys: {counts}; {len(work.refused)} shapes have no code", err=True
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
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def diff(base: Path, head: Path, arch: str, as_json: bool) -> int:
    """Compare two recorded folders: what differs, worst first, and one line of counts.

    Exit code 1 when something fails that compiled or fitted before, 2 when a kernel of base was not compiled.
    """
    changes = compare_all(read_records(base, arch), read_records(head, arch))
    if as_json:
        click.echo(store.encode({"changes": changes, "counts": tally(changes)}).decode("utf-8"))
    else:
        tell_changes(changes)
    return exit_code(changes)


def read_records(path: Path, arch: str) -> dict[str, CodegenRecord]:
    """Records by compile key, from a file, a folder of `<op>/`, or a folder of ledgers with their baselines.

    Raises UnusableInput where there is none, where a line is refused, or where a key comes twice.
    """
    patterns = (f"*/{store.CODEGEN_FILE}", f"*/baselines/{arch}/{store.CODEGEN_FILE}", store.CODEGEN_FILE)
    files = [path] if path.is_file() else next(filter(None, (sorted(path.glob(p)) for p in patterns)), [])
    if not files:
        fix = "record it with gate codegen record"
        raise UnusableInput(Problem(what=f"no {store.CODEGEN_FILE} for {arch}", file=str(path), fix=fix))
    found: dict[str, CodegenRecord] = {}
    problems: list[Problem] = []
    for file in files:
        rows, refused = store.decode_lines(file, CodegenRecord)
        problems += refused
        for line, row in rows:
            if row.compile_key in found:
                problems.append(Problem(what=f"{row.compile_key} comes twice", file=str(file), line=line))
            found[row.compile_key] = row
    if problems:
        raise UnusableInput(*problems)
    return found


def tell_changes(changes: tuple[CodegenChange, ...]) -> None:
    for change in changes:
        if change.verdict == "same":
            continue
        click.echo(f"{change.verdict:13} {change.compile_key}")
        for finding in change.findings:
            click.echo(f"{'':13} {finding.text}")
    counts = tally(changes)
    click.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "nothing to compare")
    click.echo(CODEGEN_DISCLAIMER)
