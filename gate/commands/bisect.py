"""`gate bisect`: the commit or wheel that made a kernel slower, at a stated error rate."""

from __future__ import annotations

import dataclasses
import secrets
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.bisect.answer import Design, Found
from gate.bisect.ask import Exchange, drive
from gate.bisect.search import EndUnusable, search
from gate.commands import bisect_pairs, bisect_versions, unheeded
from gate.commands.amounts import BUDGET_US, Amount
from gate.commands.bisect_asked import Asked, Gpu
from gate.commands.bisect_table import REPORT_FILE, report_of, show
from gate.commands.bisect_versions import Build, Source
from gate.commands.codegen_inputs import cache_home
from gate.commands.replay_inputs import case_of, read_inputs
from gate.commands.replay_options import simulated
from gate.commands.telling import say_json
from gate.model.problem import Exit, Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.replay.arms import parse_spec
from gate.replay.journal import Journal, open_journal
from gate.resources import frozen_ledgers_dir

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
CODE = ("auto", "machine", "sources", "none")


@click.command(short_help="Find the commit or wheel that made a kernel slower.")
@click.option("--good", required=True, help="The last commit (or wheel) known to be fast.")
@click.option("--bad", required=True, help="A later one that is slow.")
@click.option("--shape", "shape_id", required=True, help="The shape that became slower.")
@click.option("--op", required=True, help="Its op.")
@click.option("--out", type=FOLDER, required=True, help="Where the state, the trees and the report go.")
@click.option("--repo", type=FOLDER, default=Path(), help="The git repository. Default: this folder.")
@click.option("--wheels", is_flag=True, help="--good and --bad are versions of the flydsl wheel.")
@click.option("--versions", help="With --wheels: only these, oldest first, joined by commas.")
@click.option("--setup", metavar="CMD", help="Builds a commit, run by the shell in its tree; not 0 skips the commit.")
@click.option("--path-entry", "entries", multiple=True, help="Folder of the tree to import from. Default: its root.")
@click.option("--arm", metavar="SPEC", help="The arm of a commit instead, with {tree}: flydsl={tree}, python=..., ...")
@click.option("--provider", help="A provider of the matrix. Default: the candidate.")
@click.option("--entrypoint", metavar="MODULE:ATTR", help="The kernel, if not the matrix's.")
@click.option("--op-from", metavar="MODULE:ATTR", help="Where the op is defined, if not in this package.")
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl; default the packaged.")
@click.option("--ledger", type=FILE, help="One ledger, with --matrix.")
@click.option("--matrix", type=FILE, help="One baseline matrix, with --ledger.")
@click.option("--code", type=click.Choice(CODE), default="auto", show_default=True, help="What tells equal code.")
@click.option("--alpha", type=Amount(0.0001, 0.2), default=0.05, show_default=True, help="Error of it all.")
@click.option("--at-least", type=Amount(0.011), default=0.04, show_default=True, help="Slowdown of interest.")
@click.option("--pairs", type=click.IntRange(2, 128), default=32, show_default=True, help="Most process pairs a step.")
@click.option("--blocks", type=click.IntRange(2, 32), default=4, show_default=True, help="Blocks of a process pair.")
@click.option("--budget-us", type=BUDGET_US, default=2000.0, show_default=True, help="Device work of one graph.")
@click.option("--gpus", default="1", hidden=True)
@click.option("--seed", type=int, help="Orders the blocks; default drawn and recorded.")
@click.option("--resume", is_flag=True, help="Go on with the interrupted bisection in --out.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--simulate", metavar="OPTIONS", hidden=True, callback=simulated, help="Use the simulated GPU.")
def command(**options: Any) -> int:
    """Bisect from a good to a bad commit along first parents, or over wheels, with the GPU's own times.

    Versions of equal code cost nothing. The others are measured against the good one, pair of processes by pair, until
    it is clear whether they are slow; the answer is measured again against the version before it. A version that does
    not build or run is skipped. Exit code 0: found, or no regression; 2: undecided.
    """
    with begun(options) as bisection:
        # The workers write into the folder, too: they end before another process may have it.
        with Gpu(options) as gpu:
            found = bisect(bisection, gpu)
        report = report_of(found, bisection.source, alpha=options["alpha"])
        store.write_json(options["out"] / REPORT_FILE, report)
    if options["as_json"]:
        say_json(report)
    else:
        show(report)
    return Exit.NO_VERDICT if found.word == "undecided" else Exit.PASS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """A bisection that holds its folder: what is asked, and its state with what was answered before."""

    options: dict[str, Any]
    shape: Shape
    kernel: bisect_pairs.Kernel
    source: Source
    design: Design
    journal: Journal
    header: dict[str, Any]
    recorded: tuple[Exchange, ...]


@contextmanager
def begun(options: dict[str, Any]) -> Iterator[Bisection]:
    """The bisection of the options, begun or gone on with; no other process writes to --out meanwhile.

    Raises UnusableInput and WrongUsage.
    """
    shape, kernel = kernel_of(options)
    source = source_of(options)
    design = Design(alpha=options["alpha"], at_least=options["at_least"], most_pairs=options["pairs"])
    asked = header_of(options, source, design)
    journal, kept, header = open_journal(options["out"], header=asked, resume=options["resume"])
    try:
        recorded = tuple(msgspec.convert(line["exchange"], Exchange) for line in kept)
        yield Bisection(
            options=options, shape=shape, kernel=kernel, source=source, design=design,
            journal=journal, header=header, recorded=recorded,
        )  # fmt: skip
    finally:
        journal.close()


def bisect(bisection: Bisection, gpu: Gpu) -> Found:
    """Runs the bisection from its recorded state on. Raises UnusableInput."""
    shape, source = bisection.shape, bisection.source
    asked = Asked(
        bisection.options, header=bisection.header, shape=shape, kernel=bisection.kernel, source=source, gpu=gpu
    )
    try:
        return drive(
            search(len(source.versions), bisection.design),
            asked.answer,
            recorded=bisection.recorded,
            keep=lambda exchange: keep(bisection.journal, shape, exchange),
        )
    except EndUnusable as error:
        raise UnusableInput(Problem(what=f"an end cannot be used: {error}", file="", fix="name another")) from None
    finally:
        asked.close()


def keep(journal: Journal, shape: Shape, exchange: Exchange) -> None:
    """Writes one exchange down and waits until it is on disk."""
    journal.append({"shape_id": shape.shape_id, "exchange": msgspec.to_builtins(exchange)})


def kernel_of(options: dict[str, Any]) -> tuple[Shape, bisect_pairs.Kernel]:
    """The shape and its kernel. Raises UnusableInput and WrongUsage."""
    inputs = read_inputs(
        op=options["op"],
        ledgers=options["ledgers"] or frozen_ledgers_dir(),
        ledger=options["ledger"],
        matrix=options["matrix"],
        candidate=None,
    )
    shape = next((shape for shape in inputs.shapes if shape.shape_id == options["shape_id"]), None)
    if shape is None:
        what = f"--shape {options['shape_id']} is in no ledger of {options['op']}"
        raise WrongUsage(Problem(what=what, file="", fix="see 'gate ledger show'"))
    matrix = inputs.matrices[shape.op_type]
    name = options["provider"] or matrix.candidate_provider
    entry = matrix.providers.get(name)
    if entry is None and options["entrypoint"] is None:
        what = f"--provider {name} is not in the matrix of {shape.op_type}"
        raise WrongUsage(Problem(what=what, file="", fix=f"choose among {', '.join(matrix.enabled)}"))
    entrypoint = options["entrypoint"] or (entry.entrypoint if entry is not None else "")
    kernel = bisect_pairs.Kernel(case=case_of(shape), provider=name, entrypoint=entrypoint, op=options["op_from"])
    return shape, kernel


def source_of(options: dict[str, Any]) -> Source:
    """The versions between good and bad. Raises WrongUsage and UnusableInput."""
    if options["wheels"]:
        if options["setup"] or options["entries"]:
            raise WrongUsage(Problem(what="--setup and --path-entry are for commits, not for --wheels", file=""))
        listed = tuple(filter(None, (options["versions"] or "").split(",")))
        arm = parse_spec(options["arm"], side="arm")
        return bisect_versions.wheel_versions(
            options["good"], options["bad"], listed=listed, home=cache_home(), arm=arm
        )
    unheeded.refuse(("versions",), beside="a bisection of commits")
    if options["arm"]:
        unheeded.refuse(("entries",), beside="--arm, which says what to import")
    if options["code"] == "machine" and (options["setup"] or options["arm"]):
        what = "--code machine compiles with the interpreter's flydsl, not with what --setup or --arm make of a tree"
        raise WrongUsage(Problem(what=what, file="", fix="give --code sources"))
    places = [f"{{tree}}/{entry}" if entry != "." else "{tree}" for entry in options["entries"] or (".",)]
    spec = options["arm"] or ",".join(f"path={place}" for place in places)
    build = Build(repo=options["repo"], folder=options["out"], setup=options["setup"], spec=spec)
    return bisect_versions.commits(options["good"], options["bad"], build)


def header_of(options: dict[str, Any], source: Source, design: Design) -> dict[str, Any]:
    """The state's first line: what an interrupted bisection must share to go on."""
    same = ("shape_id", "provider", "entrypoint", "setup", "arm", "code", "blocks", "budget_us", "simulate")
    return {
        "session_id": uuid.uuid4().hex[:16],
        "seed": options["seed"] if options["seed"] is not None else secrets.randbelow(1 << 31),
        "secret": secrets.randbelow(1 << 62),
        "fingerprint": {
            "versions": [version.name for version in source.versions],
            "design": msgspec.to_builtins(design),
            "entries": list(options["entries"]),
            **{name: options[name] for name in same},
        },
    }


def options_of(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command line, for callers that run many bisections in one process. Raises click.UsageError."""
    return dict(command.make_context("bisect", list(arguments)).params)
