"""`gate codegen show`: one kernel of base and head side by side: resources, instruction mix, hot loop."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.codegen.compile import cached_isa
from gate.codegen.diff import compare, compare_all
from gate.codegen.loops import Loop, hot_loop
from gate.codegen.side_by_side import Line, Row, aligned, mix, resources
from gate.codegen.toolchains import CANARIES
from gate.commands import unheeded
from gate.commands.codegen_inputs import COMPILED, FILE, FOLDER, cache_home, codegen_policy, read_records, thresholds
from gate.commands.codegen_sides import USUAL_ARCH
from gate.commands.compile_keys import MOST_NEAR, matching, none_such
from gate.commands.printed import STORED
from gate.model.codegen import CODEGEN_DISCLAIMER, CodegenChange, CodegenRecord
from gate.model.problem import Problem, WrongUsage
from gate.model.text import counted
from gate.resources import frozen_ledgers_dir, templates_dir

TEMPLATE = "codegen_show.html.j2"
WIDTH = 62
BASE_HELP = f"Recorded folder of base; {STORED} without such a folder here means the gate's own."


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is shown of one kernel."""

    change: CodegenChange
    resources: tuple[Row, ...]
    mix: tuple[Row, ...]
    loop: tuple[Line, ...]
    loop_words: str


@click.command("show")
@click.argument("key", required=False)
@click.option(
    "--base",
    type=click.Path(path_type=Path),
    help=f"Recorded folder of base; {STORED} are the gate's own where there is no such folder.",
)
@click.option("--head", type=click.Path(path_type=Path), required=True, help="Recorded folder of head.")
@click.option("--arch", default="gfx950", show_default=True, help="Which baseline of a folder of ledgers.")
@click.option("--html", type=FILE, help="Write a page of its own instead, with nothing to load from elsewhere.")
@click.option("--pages", type=FOLDER, help="Write a page for every kernel that changed, and index.json: key to page.")
@click.option("--policy", type=FILE, help="Policy file. Default: the defaults.")
def command(
    key: str | None,
    base: Path | None,
    head: Path,
    arch: str,
    html: Path | None,
    pages: Path | None,
    policy: Path | None,
) -> None:
    """Show one kernel: KEY is a compile key, or whole fields of one (such as N=4096) that name it alone.

    The hot loop is read from the assembly that 'gate run' keeps beside its results, or from the user's cache. A stored
    baseline holds numbers only: for its loop 'gate codegen record' with that flydsl once on this machine.
    """
    if (key is None) == (pages is None):
        raise WrongUsage(Problem(what="show needs exactly one of KEY and --pages", file=""))
    if pages is not None:
        unheeded.refuse(("html",), beside="--pages")
    base = stored(base) if base else None
    before = read_records(base, arch) if base else {}
    after = read_records(head, arch)
    limits = thresholds(codegen_policy(policy)[0])
    if pages is not None:
        names = write_pages(compare_all(before, after, limits), pages, _kept(base, head))
        click.echo(f"{counted(len(names), 'page')} in {pages}", err=True)
        return
    name = chosen(key or "", {**before, **after})
    view = view_of(compare(before.get(name), after.get(name), limits), _kept(base, head))
    if html is not None:
        store.write_text(html, page(view))
        click.echo(f"written: {html}", err=True)
    else:
        tell(view)


def stored(base: Path) -> Path:
    """The folder as named; the package's ledgers for their usual name outside a clone."""
    return frozen_ledgers_dir() if base == Path(STORED) and not base.exists() else base


def chosen(key: str, records: Mapping[str, CodegenRecord]) -> str:
    """The one compile key that is meant. Raises WrongUsage with the candidates."""
    if key in records:
        return key
    meant = matching(key, records)
    if len(meant) == 1:
        return meant[0]
    if not meant:
        raise WrongUsage(none_such(key, records))
    what = f"{key} names {len(meant)} kernels: {', '.join(meant[:MOST_NEAR])}"
    raise WrongUsage(Problem(what=what, file="", fix="give more of the compile key"))


def _kept(*recorded: Path | None) -> tuple[Path, ...]:
    """Where assembly may lie: beside the records of a run, and in the user's cache."""
    return (*(folder.parent / COMPILED for folder in recorded if folder), cache_home() / "codegen")


def write_pages(changes: Sequence[CodegenChange], folder: Path, assembly: Sequence[Path]) -> dict[str, str]:
    """One page per kernel that changed, and index.json: the file's name by compile key, which is returned.

    A file is named by the hash of its key: a key is longer than a file name may be. The hot loops are read from the
    caches `assembly`.
    """
    names = {
        change.compile_key: f"{hashlib.sha256(change.compile_key.encode()).hexdigest()[:16]}.html"
        for change in changes
        if change.verdict not in ("same", "still_failing")
    }
    for change in changes:
        if change.compile_key in names:
            store.write_text(folder / names[change.compile_key], page(view_of(change, assembly)))
    store.write_json(folder / "index.json", names)
    return names


def view_of(change: CodegenChange, assembly: Sequence[Path]) -> View:
    """What there is to show of one kernel, with its hot loop where one of the caches `assembly` holds the text."""
    base, head = change.base, change.head
    texts = [_text_of(side, assembly) for side in (base, head)]
    old, new = (hot_loop(text) if text else None for text in texts)
    return View(
        change=change,
        resources=resources(base, head),
        mix=mix(base, head),
        loop=aligned(old, new),
        loop_words=_loop_words(zip((base, head), texts, (old, new), strict=True)),
    )


def _text_of(record: CodegenRecord | None, assembly: Sequence[Path]) -> str | None:
    found = (cached_isa(record, folder) for folder in assembly if record is not None)
    return next((text for text in found if text), None)


def _loop_words(sides: Iterable[tuple[CodegenRecord | None, str | None, Loop | None]]) -> str:
    parts = []
    for name, (record, text, loop) in zip(("base", "head"), sides, strict=True):
        if record is None:
            continue
        if loop is not None:
            parts.append(
                f"{name}: {counted(len(loop.lines), 'line')}, {counted(loop.matrix_steps, 'matrix step')} a round"
            )
        elif text is None:
            parts.append(f"{name}: no assembly here; {_recording(record)} brings it")
        else:
            parts.append(f"{name}: no loop, straight code")
    return "; ".join(parts)


def _recording(record: CodegenRecord) -> str:
    """What puts the assembly of a record into the cache."""
    tools = record.toolchain
    if tools.kernels != CANARIES.name:
        return "gate codegen record with that compiler and kernels"
    arch = [] if record.arch == USUAL_ARCH else ["--arch", record.arch]
    asked = ["--wheel", tools.flydsl_version, "--op", record.op_type, *arch]
    return shlex.join(["gate", "codegen", "record", *asked, "--out", "records"])


def tell(view: View) -> None:
    """The view on a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(f"{_key(view)}  {view.change.verdict}", style="bold"))
    for finding in view.change.findings:
        console.print(Text(f"  {finding.text}"))
    table = Table("", "base", "head")
    for row in (*view.resources, *(row for row in view.mix if row.differs)):
        style = "bold" if row.differs else ""
        table.add_row(row.name, _text(row.base), _text(row.head), style=style)
    console.print(table)
    console.print(Text(f"hot loop: {view.loop_words}"), soft_wrap=True)
    for line in view.loop:
        mark = "|" if line.changed else " "
        console.print(Text(f"{line.base[:WIDTH]:{WIDTH}} {mark} {line.head[:WIDTH]}"), soft_wrap=True)
    console.print(Text(CODEGEN_DISCLAIMER))


def _text(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _key(view: View) -> str:
    return view.change.compile_key


def page(view: View) -> str:
    """The view as one HTML page without scripts, every value escaped."""
    import jinja2

    loader = jinja2.FileSystemLoader(templates_dir())
    engine = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True)
    either: Any = view.change.head or view.change.base
    sides = [(title, side) for title, side in (("base", view.change.base), ("head", view.change.head)) if side]
    return engine.get_template(TEMPLATE).render(
        view=view, either=either, sides=sides, disclaimer=CODEGEN_DISCLAIMER, text=_text
    )
