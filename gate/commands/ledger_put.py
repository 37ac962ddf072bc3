"""What all imports share: their options, and how drafts get into ledgers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click

from gate.commands.ledger_files import stored_rows
from gate.commands.ledger_needs import lacking
from gate.commands.telling import say, tell
from gate.ledgers import documents, hf_config, matrices
from gate.ledgers.draft import Draft, rows
from gate.ledgers.facts import Model, packaged_models
from gate.ledgers.known import unknown
from gate.ledgers.upsert import Change, upsert
from gate.model.problem import Exit, Problem, UnusableInput, WrongUsage
from gate.model.shape import DTYPES, fault
from gate.model.text import counted
from gate.store import LEDGER_FILE, read_document, write_jsonl

FILE = click.Path(path_type=Path)


def target_options(function: click.decorators.FC) -> click.decorators.FC:
    """Where imported rows go: one ledger, or one op's folder each under a folder."""
    one = click.option("--into", type=FILE, default=None, help="A ledger file that takes the rows of all ops.")
    many = click.option("--ledgers", type=FILE, default=None, help="A folder that takes each op's rows in OP/.")
    return many(one(function))


def ops_option(known: Iterable[str]) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """`--op`, repeatable, all ops where none is given."""
    names = sorted(known)

    def all_if_none(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        return value or tuple(names)

    return click.option(
        "--op", "ops", multiple=True, type=click.Choice(names), callback=all_if_none, help="Repeatable; default all."
    )


def dtype_option() -> Callable[[click.decorators.FC], click.decorators.FC]:
    """`--dtype`, one of the dtypes that a ledger may name."""
    help_text = "Such as bf16 or fp8; default: what each op is usually measured in."
    return click.option("--dtype", type=click.Choice(DTYPES), metavar="DTYPE", help=help_text)


def sizes(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    """As `any_sizes`, at least one."""
    found = any_sizes(context, parameter, value)
    if not found:
        raise click.BadParameter("give at least one size", ctx=context, param=parameter)
    return found


def any_sizes(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Whole numbers above zero, split by commas; `a:b:c` counts from a to b in steps of c. May be none."""
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


def chosen_model(config: Path | None, name: str | None) -> Model:
    """The model of --config, or the one of the project's own list that --model names. Raises WrongUsage."""
    if config is not None:
        return hf_config.read(documents.parse(read_document(config), file=str(config)), file=str(config), name=name)
    models = packaged_models()
    if name in models:
        return models[name]
    what = "give --config FILE or --model NAME" if name is None else f"no model {name!r} is known"
    raise WrongUsage(Problem(what=what, file="", fix=f"give a config.json, or one of: {', '.join(models)}"))


def put(
    drafts: Iterable[Draft],
    *,
    kinds: frozenset[str],
    into: Path | None,
    ledgers: Path | None,
    problems: Iterable[Problem] = (),
) -> None:
    """Upserts the drafts and says what changed; no file changes before all that would have been read.

    Raises WrongUsage without exactly one target, UnusableInput with `problems` where no draft came: an import of
    nothing would only take rows away.
    """
    if (into is None) == (ledgers is None):
        raise WrongUsage(Problem(what="give either --into FILE or --ledgers FOLDER", file=""))
    by_op: dict[str, list[Draft]] = {}
    for draft in drafts:
        why = fault(op_type=draft.op_type, dtype=draft.dtype, args=draft.args) or unknown(draft.op_type)
        if why := why or lacking(draft.op_type, draft.args):
            raise UnusableInput(Problem(what=why, file=draft.source.file or ""))
        by_op.setdefault(draft.op_type, []).append(draft)
    if not by_op:
        nothing = Problem(what="the import gives no row; no ledger was changed", file="", fix="check what was given")
        raise UnusableInput(*(tuple(problems) or (nothing,)))
    new = {op: rows(of_op, baselines={op: matrices.baselines(op)}) for op, of_op in by_op.items()}
    if into is not None:
        targets = {into: [shape for op in sorted(new) for shape in new[op]]}
    else:
        assert ledgers is not None
        targets = {ledgers / op / LEDGER_FILE: new[op] for op in sorted(new)}
    changes = {
        path: upsert(stored_rows(path) if path.exists() else (), shapes, kinds=kinds)
        for path, shapes in targets.items()
    }
    for path, change in changes.items():
        write_jsonl(path, change.shapes)
        _say_change(path, change)


# So many rows fewer than before are no correction of a source.
MANY_GONE = 10


def _say_change(path: Path, change: Change) -> None:
    there = counted(change.elsewhere, "imported row was", "imported rows were")
    say(
        f"{path}: {change.added} added, {change.changed} changed, {change.removed} removed, "
        f"{change.unchanged} unchanged, {change.kept} of other sources kept"
        + (f" ({there} there already)" if change.elsewhere else "")
    )
    if change.removed >= MANY_GONE and change.removed > 2 * change.added:
        what = f"warning: {change.removed} rows of earlier imports of this source were removed, {change.added} added"
        tell(Problem(what=what, file=str(path), fix="an import replaces all rows of its source; was that meant?"))


def finish(problems: Iterable[Problem]) -> int:
    """Reports what was not understood; the rest is imported all the same, and the exit code says so."""
    found = tuple(problems)
    for problem in found:
        tell(problem)
    return Exit.NO_VERDICT if found else Exit.PASS
