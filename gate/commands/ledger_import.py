"""`gate ledger import ...`: one verb per source; each replaces the rows of its own source kind in a ledger."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from gate.commands.ledger_files import stored_rows
from gate.ledgers import aiter_model_shapes, matrices
from gate.ledgers.draft import Draft, rows
from gate.ledgers.upsert import upsert
from gate.model.problem import Exit, Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.schemas.strict import loads
from gate.store import LEDGER_FILE, read_bytes, write_jsonl

FILE = click.Path(path_type=Path)


@click.group("import")
def import_group() -> None:
    """Bring shapes from a source into a ledger; running it again changes nothing."""


def target_options(function: click.decorators.FC) -> click.decorators.FC:
    """Where imported rows go: one ledger, or one op's folder each under a folder."""
    function = click.option("--into", type=FILE, default=None, help="A ledger that takes the rows of all ops.")(
        function
    )
    return click.option("--ledgers", type=FILE, default=None, help="A folder that takes each op's rows in OP/.")(
        function
    )


def sizes(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Whole numbers above zero, split by commas; `a:b:c` counts from a to b in steps of c."""
    found: list[int] = []
    for part in (value or "").split(","):
        if not part.strip():
            continue
        try:
            numbers = [int(piece) for piece in part.split(":")]
        except ValueError:
            raise click.BadParameter(f"{part!r} is not a whole number", ctx=context, param=parameter) from None
        if len(numbers) == 3 and 0 < numbers[0] <= numbers[1] and numbers[2] > 0:
            found += range(numbers[0], numbers[1] + 1, numbers[2])
        elif len(numbers) == 1 and numbers[0] > 0:
            found += numbers
        else:
            raise click.BadParameter(f"{part!r} is neither a size nor start:stop:step", ctx=context, param=parameter)
    return tuple(dict.fromkeys(found))


def put(drafts: Iterable[Draft], *, kinds: frozenset[str], into: Path | None, ledgers: Path | None) -> None:
    """Upserts the drafts and says what changed. Raises WrongUsage without exactly one target."""
    if (into is None) == (ledgers is None):
        raise WrongUsage(Problem(what="give either --into FILE or --ledgers FOLDER", file=""))
    by_op: dict[str, list[Draft]] = {}
    for draft in drafts:
        by_op.setdefault(draft.op_type, []).append(draft)
    new = {op: rows(of_op, baselines={op: matrices.baselines(op)}) for op, of_op in by_op.items()}
    if into is not None:
        _store(into, [shape for op in sorted(new) for shape in new[op]], kinds)
        return
    assert ledgers is not None
    for op in sorted(new):
        _store(ledgers / op / LEDGER_FILE, new[op], kinds)


def _store(path: Path, new: list[Shape], kinds: frozenset[str]) -> None:
    change = upsert(stored_rows(path) if path.exists() else (), new, kinds=kinds)
    write_jsonl(path, change.shapes)
    click.echo(
        f"{path}: {change.added} added, {change.changed} changed, {change.removed} removed, "
        f"{change.unchanged} unchanged, {change.kept} of other sources kept"
        + (f" ({change.elsewhere} imported rows were there already)" if change.elsewhere else "")
    )


def finish(problems: Iterable[Problem]) -> int:
    """Reports what was not understood; the rest is imported all the same, and the exit code says so."""
    found = tuple(problems)
    for problem in found:
        click.echo(str(problem), err=True)
    return Exit.NO_VERDICT if found else Exit.PASS


@import_group.command("aiter-model-shapes")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--m-values", callback=sizes, default="1,32,256,2048,16384", show_default=True, help="Tokens per step.")
@click.option("--batches", callback=sizes, default="1", show_default=True, help="Batches of attention.")
@click.option("--seq-lens", callback=sizes, default="4096", show_default=True, help="Lengths of attention, in tokens.")
@click.option("--tp", callback=sizes, default="8", show_default=True, help="Ranks of tensor parallelism.")
@click.option("--kernel", "kernels", multiple=True, help="Only this kernel key; repeatable.")
@target_options
def aiter_verb(
    files: tuple[Path, ...],
    m_values: tuple[int, ...],
    batches: tuple[int, ...],
    seq_lens: tuple[int, ...],
    tp: tuple[int, ...],
    kernels: tuple[str, ...],
    into: Path | None,
    ledgers: Path | None,
) -> int:
    """AITER's model_shapes.json, every kernel key of it, sharded as AITER's own tool does."""
    drafts: list[Draft] = []
    problems: list[Problem] = []
    counts: dict[str, int] = {}
    for path in files:
        for ranks in tp:
            sweep = aiter_model_shapes.Sweep(m_values=m_values, batches=batches, seq_lens=seq_lens, tp=ranks)
            found = aiter_model_shapes.read(_json(path), file=str(path), sweep=sweep)
            drafts += [draft for draft in found.drafts if not kernels or draft.kernel_name in kernels]
            problems += [problem for problem in found.problems if problem not in problems]
            for name, count in found.counts.items():
                counts[name] = counts.get(name, 0) + count
    for name, count in sorted(counts.items()):
        if not kernels or name in kernels:
            click.echo(f"{name}: {count} shapes as {aiter_model_shapes.KERNELS[name].op}")
    put(drafts, kinds=frozenset({aiter_model_shapes.KIND}), into=into, ledgers=ledgers)
    return finish(problems)


def _json(path: Path) -> object:
    try:
        return loads(read_bytes(path))
    except ValueError as error:
        raise UnusableInput(Problem(what=str(error), file=str(path), fix="the file is cut off or damaged")) from None
