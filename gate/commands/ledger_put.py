"""What all imports share: their options, and how drafts get into ledgers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click

from gate.commands.ledger_files import stored_rows
from gate.commands.telling import tell
from gate.ledgers import documents, hf_config, matrices
from gate.ledgers.draft import Draft, rows
from gate.ledgers.facts import Model, packaged_models
from gate.ledgers.upsert import upsert
from gate.model.problem import Exit, Problem, WrongUsage
from gate.model.shape import Shape
from gate.store import LEDGER_FILE, read_bytes, write_jsonl

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


def chosen_model(config: Path | None, name: str | None) -> Model:
    """The model of --config, or the one of the project's own list that --model names. Raises WrongUsage."""
    if config is not None:
        return hf_config.read(documents.parse(read_bytes(config), file=str(config)), file=str(config), name=name)
    models = packaged_models()
    if name in models:
        return models[name]
    what = "give --config FILE or --model NAME" if name is None else f"no model {name!r} is known"
    raise WrongUsage(Problem(what=what, file="", fix=f"give a config.json, or one of: {', '.join(models)}"))


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
        tell(problem)
    return Exit.NO_VERDICT if found else Exit.PASS
