"""`gate history`: the rows of all runs in a store without a server, and what their series show."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import click

from gate.commands.history_options import STORE, broken, listing, store_option, wanted_options
from gate.commands.history_page import page
from gate.commands.history_trend import trend
from gate.commands.progress import progress
from gate.commands.telling import say, say_json, tell
from gate.history import files
from gate.model.history import Wanted
from gate.model.problem import Exit, Problem, WrongUsage
from gate.model.text import counted

INPUT = click.Path(path_type=Path)
MOMENT = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"])


@click.group("history", short_help="Keep the rows of all runs; show their series, noise and changes.")
def command() -> None:
    """Keep the rows of all runs in a folder of Parquet files, and show what their series tell.

    \b
    gate history add --from RUN --store DIR     append a run: one file, never changed, twice is once
    gate history trend --store DIR              lasting changes of each series, and its noise
    gate history page --store DIR --out F.html  the same as one page

    A series is one shape of one provider on one GPU and architecture, timed by one method in one cache state. A
    change of any of these starts a new series. Files that cannot be read are named, left out, and make the exit
    code 2.
    """


@command.command()
@click.option("--from", "sources", multiple=True, type=INPUT, help="Folder of a run, or its results; may be repeated.")
@click.argument("more", nargs=-1, type=INPUT)
@click.option("--store", type=STORE, required=True, help="Folder of the history; made if it is not there.")
@click.option("--run", "name", default="", help="Name of the run. Default: the rows' run_id.")
@click.option("--at", type=MOMENT, help="When it was measured, UTC. Default: when its newest file was written.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes that read many runs. Default: one a usable CPU.")
def add(
    sources: tuple[Path, ...], more: tuple[Path, ...], store: Path, name: str, at: datetime | None, jobs: int | None
) -> int:
    """Append the rows of each run, head and base, or none of its rows where one is refused.

    A run that the store has already, by its content, is left. Exit codes: 0 all are in the store, 2 one is not.
    """
    runs = (*sources, *more)
    if not runs:
        raise WrongUsage(Problem(what="nothing to add", file="", fix="name a run with --from"))
    if len(runs) > 1 and (name or at):
        raise WrongUsage(Problem(what="--run and --at are of one run", file="", fix="add the runs one by one"))
    # Imported here: only this verb starts processes.
    from gate.commands.history_files import Job, add_all

    files.need()
    when = None if at is None else at.replace(tzinfo=UTC)
    wanted = [Job(source=source, store=store, name=name, at=when) for source in runs]
    failed, added, rows = 0, 0, 0
    with progress("history", len(runs)) as step, closing(add_all(wanted, processes=jobs)) as found:
        for outcome in found:
            step(str(outcome.source))
            for problem in outcome.problems:
                tell(problem)
            failed += bool(outcome.problems)
            if outcome.added is not None and outcome.added.file is None:
                say(f"{outcome.source}: in the history already, as {outcome.added.run.name}")
            elif outcome.added is not None:
                added, rows = added + 1, rows + outcome.added.run.rows
    refused = f"; {failed} refused" if failed else ""
    say(f"{store}: {added} of {counted(len(runs), 'run')} added, {counted(rows, 'row')}{refused}")
    return Exit.NO_VERDICT if failed else Exit.PASS


@command.command()
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def show(store: Path, as_json: bool) -> int:
    """Print what the store holds: runs, rows, span, ops, contracts."""
    from gate.commands import history_table
    from gate.history import query

    seen, found = query.asked(listing(store), query.overview)
    if as_json:
        say_json(seen)
    else:
        for line in history_table.overview(seen):
            say(line)
    return broken(found)


@command.command()
@store_option
@wanted_options
@click.option("--side", type=click.Choice(["head", "base", "all"]), default="all", show_default=True,
              help="Rows of head, of base, or both.")  # fmt: skip
@click.option("--format", "kind", type=click.Choice(["csv", "jsonl"]), help="Default: what the name of --out ends in.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File to write.")
def export(store: Path, wanted: Wanted, side: str, kind: str | None, out: Path) -> int:
    """Write rows to a file, oldest run first."""
    from msgspec.structs import replace

    from gate.history import query

    kind = kind or out.suffix.lstrip(".")
    if kind not in ("csv", "jsonl"):
        raise WrongUsage(Problem(what=f"no format {kind!r}", file=str(out), fix="give --format csv or jsonl"))
    chosen = replace(wanted, side=None if side == "all" else side)
    rows, found = query.asked(listing(store), lambda reader, _: query.export(reader, chosen, path=out, kind=kind))
    say(f"{out}: {counted(rows, 'row')}")
    return broken(found)


@command.command()
@store_option
@click.option("--least", type=click.IntRange(min=2), default=8, show_default=True, help="Files that make it worth it.")
def compact(store: Path, least: int) -> int:
    """Make one sorted file of the files of each architecture and month. The rows stay the same."""
    from gate.history.append import compact as made

    found = listing(store)
    for one in made(store, least=least):
        say(f"{one.file}: {counted(one.rows, 'row')} of {counted(one.runs, 'run')}, from {counted(one.files, 'file')}")
    return broken(found)


@command.command()
@store_option
def check(store: Path) -> int:
    """Read every row and name each file that is not as it was written. Exit codes: 0 all are whole, 2 one is not."""
    from gate.history.append import check as damaged

    found = listing(store)
    bad = damaged(found.files)
    for problem in bad:
        tell(problem)
    files = counted(len(found.files) + len(found.problems), "file is", "files are")
    say(f"{store}: {len(found.files) - len(bad)} of {files} whole")
    return Exit.NO_VERDICT if bad else broken(found)


command.add_command(trend)
command.add_command(page)
