"""`gate ledger`: build, freeze, check, show and compare ledgers; imports are in `ledger_import`."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from gate.commands.ledger_files import (
    baseline_problems,
    incomplete_rows,
    ledger_paths,
    lock_problems,
    op_folders,
    stored_rows,
    write_frozen,
)
from gate.commands.ledger_import import import_group
from gate.commands.telling import say, say_json, tell
from gate.ledgers import matrices, recipe, scan
from gate.ledgers.compare import Difference, compare
from gate.ledgers.draft import physical, rows
from gate.ledgers.facts import packaged_models
from gate.ledgers.upsert import digest
from gate.model.problem import Exit, Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.model.text import counted
from gate.resources import frozen_ledgers_dir
from gate.schemas.check import check as check_contract
from gate.store import LEDGER_FILE, MATRIX_FILE, ledgers_lock, read_document, stream_lines

FOLDER = click.Path(path_type=Path)


@click.group("ledger")
@click.pass_context
def command(context: click.Context) -> None:
    """Import, build, freeze, check, show and compare shape ledgers."""
    # Rows hold no cycles; with a million of them the collector takes a third of the time to find that out.
    if gc.isenabled():
        gc.disable()
        context.call_on_close(gc.enable)


command.add_command(import_group)


def frozen_shapes(op: str) -> list[Shape]:
    """The rows that the project's own facts give for an op."""
    drafts = recipe.drafts(op, recipe=recipe.packaged_recipe(), models=packaged_models())
    return rows(drafts, baselines={op: matrices.baselines(op)})


@command.command("build")
@click.argument("ops", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every op of the recipe.")
@click.option("--out", type=FOLDER, default=None, help="Where; default the project's frozen_ledgers.")
def build(ops: tuple[str, ...], everything: bool, out: Path | None) -> int:
    """Write the frozen ledgers, matrices and locks of OPS again from the project's own facts.

    The same facts give the same bytes. Baselines that lie in the folder are kept and locked.
    """
    known = recipe.packaged_recipe().ops
    wanted = known if everything else ops
    unknown = sorted(set(wanted) - set(known))
    if unknown or not wanted:
        what = f"no recipe for {', '.join(unknown)}" if unknown else "name ops, or give --all"
        raise WrongUsage(Problem(what=what, file="", fix=f"the ops are {', '.join(known)}"))
    root = out or frozen_ledgers_dir()
    with ledgers_lock(root / op for op in wanted):
        for op in wanted:
            shapes = frozen_shapes(op)
            write_frozen(root / op, shapes=shapes, matrix=matrices.matrix_yaml(op))
            say(f"{op}: {counted(len(shapes), 'shape')}")
    return Exit.PASS


@command.command("freeze")
@click.argument("folders", nargs=-1, required=True, type=FOLDER)
def freeze_folders(folders: tuple[Path, ...]) -> int:
    """Check each op's folder (or each op in FOLDER) and write its lock over what lies in it now."""
    ops = [op for given in folders for op in op_folders(given)]
    with ledgers_lock(ops):
        for folder in ops:
            bad = [*_problems(folder, Counter()), *incomplete_rows(folder)]
            if bad:
                raise UnusableInput(*bad)
            lock = write_frozen(folder, shapes=None, matrix=None)
            say(f"{folder}: {counted(len(lock.files), 'file')} locked")
    return Exit.PASS


@command.command("check")
@click.argument("folders", nargs=-1, type=FOLDER)
def check(folders: tuple[Path, ...]) -> int:
    """Hold frozen folders against their locks, and every row against its id; default the project's own.

    A FOLDER is one op's, or one that holds several. Exit code 0 if all is as frozen, 2 if not. Shapes that stand
    under several ids (for several models or stages) are counted; they are measured more than once.
    """
    ops = [op for given in folders or (frozen_ledgers_dir(),) for op in op_folders(given)]
    problems: list[Problem] = []
    for folder in ops:
        seen: Counter[bytes] = Counter()
        found = [*lock_problems(folder), *_problems(folder, seen)]
        problems += found
        verdict = "as frozen" if not found else counted(len(found), "problem")
        say(f"{folder}: {verdict}{_repeated(seen)}")
    for problem in problems:
        tell(problem)
    return Exit.NO_VERDICT if problems else Exit.PASS


def _problems(folder: Path, seen: Counter[bytes]) -> list[Problem]:
    return [*_matrix_problems(folder), *_ledger_problems(folder, seen), *baseline_problems(folder)]


def _matrix_problems(folder: Path) -> list[Problem]:
    path = folder / MATRIX_FILE
    try:
        return list(check_contract("baseline_matrix", file=str(path), data=read_document(path)).problems)
    except UnusableInput as error:
        return list(error.problems)


def _ledger_problems(folder: Path, seen: Counter[bytes]) -> list[Problem]:
    """The refused rows of the folder's ledger; `seen` counts the physical shapes of the others."""
    path = folder / LEDGER_FILE
    problems: list[Problem] = []
    try:
        for _, row in scan.rows(stream_lines(path), file=str(path)):
            if isinstance(row, Problem):
                problems.append(row)
            else:
                seen[physical(row)] += 1
    except UnusableInput as error:
        problems += error.problems
    return problems


def _repeated(seen: Counter[bytes]) -> str:
    again = sum(1 for count in seen.values() if count > 1)
    return f", {counted(again, 'shape')} under several ids" if again else ""


@command.command("show")
@click.argument("given", required=False, type=FOLDER)
@click.option("--op", "ops", multiple=True, help="Only this op; repeatable.")
@click.option("--stage", "stages", multiple=True, help="Only this stage; repeatable.")
@click.option("--source", "kinds", multiple=True, help="Only this source kind; repeatable.")
@click.option("--dtype", "dtypes", multiple=True, help="Only this dtype; repeatable.")
@click.option("--model", default="", help="Only models whose name holds this.")
@click.option("--limit", type=click.IntRange(min=0), default=40, show_default=True, help="Most rows; all are counted.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON, no rows.")
def show(
    given: Path | None,
    ops: tuple[str, ...],
    stages: tuple[str, ...],
    kinds: tuple[str, ...],
    dtypes: tuple[str, ...],
    model: str,
    limit: int,
    as_json: bool,
) -> int:
    """A readable table of a ledger (a file, an op's folder or a folder of ops) and counts by op, stage and source."""
    wanted = scan.Filter(ops=ops, stages=stages, sources=kinds, dtypes=dtypes, model=model)
    tally = scan.Tally()
    first: list[Shape] = []
    problems: list[Problem] = []
    for row in _all_rows(given or frozen_ledgers_dir()):
        if isinstance(row, Problem):
            problems.append(row)
        elif wanted(row):
            tally.add(row)
            if len(first) < limit:
                first.append(row)
    if as_json:
        say_json(tally.plain())
    else:
        _print_rows(first, tally)
    for problem in problems:
        tell(problem)
    return Exit.NO_VERDICT if problems else Exit.PASS


def _all_rows(given: Path) -> Iterator[Shape | Problem]:
    for path in ledger_paths(given):
        for _, row in scan.rows(stream_lines(path), file=str(path)):
            yield row


def _print_rows(shown: list[Shape], tally: scan.Tally) -> None:
    from gate.commands.ledger_table import console, counts_text, show_rows

    target = console(sys.stdout)
    if shown:
        show_rows(shown, target)
    if tally.rows > len(shown):
        say(f"... and {tally.rows - len(shown)} more; --limit shows more of them")
    target.print(counts_text(tally))


@command.command("diff")
@click.argument("old", type=FOLDER)
@click.argument("new", type=FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print the difference as JSON.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything differs.")
def diff(old: Path, new: Path, as_json: bool, exit_code: bool) -> int:
    """What going from ledger OLD to NEW changes: rows added, removed, changed, or the same shape under a new id."""
    # Most rows are the same: only their digests are held, and the others compared.
    common = {digest(shape) for shape in _rows_or_fail(old)} & {digest(shape) for shape in _rows_or_fail(new)}
    sides = [[shape for shape in _rows_or_fail(side) if digest(shape) not in common] for side in (old, new)]
    found = compare(*sides, same=len(common))
    if as_json:
        say_json(found)
    else:
        for line in _difference_lines(found):
            say(line)
    return Exit.BLOCK if exit_code and not found.empty else Exit.PASS


def _rows_or_fail(given: Path) -> Iterator[Shape]:
    return (shape for path in ledger_paths(given) for shape in stored_rows(path))


def _difference_lines(found: Difference) -> Iterator[str]:
    from gate.commands.ledger_table import arguments

    def line(sign: str, shape: Shape, more: str = "") -> str:
        return f"{sign} {shape.shape_id} {shape.op_type} {shape.dtype} {arguments(shape)} {shape.model}{more}"

    yield from (line("-", shape) for shape in found.removed)
    yield from (line("+", shape) for shape in found.added)
    yield from (line("~", row.shape, f": {', '.join(row.fields)}") for row in found.changed)
    yield from (
        line(">", row.new, f": was {row.old.shape_id} {row.old.model} {row.old.stage}") for row in found.renamed
    )
    yield (
        f"{len(found.added)} added, {len(found.removed)} removed, {len(found.changed)} changed, "
        f"{len(found.renamed)} under a new id, {found.same} the same"
    )
