"""`gate replay`: measures head, base and the baselines of a ledger on this machine's GPUs, and writes result rows."""

from __future__ import annotations

import secrets
import uuid
from itertools import pairwise
from typing import Any

import click

from gate import store
from gate.commands.amounts import BUDGET_US
from gate.commands.progress import progress
from gate.commands.replay_inputs import Inputs, Selection, choose, read_inputs, split_list
from gate.commands.replay_options import input_options
from gate.commands.replay_output import collect, conclude, write_correctness, write_timed
from gate.commands.starting import arms_start
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.replay.arms import ArmSpec, parse_spec
from gate.replay.blocks import BASE, CONTROL, HEAD
from gate.replay.job import MOST_LANES, TIMEOUTS, Settings, even, spread
from gate.replay.journal import open_journal
from gate.replay.machine import picked_gpus, visible_gpus
from gate.replay.runner import measure
from gate.resources import frozen_ledgers_dir


@click.command(short_help="Measure head, base and the baselines on this machine's GPUs.")
@input_options
@click.option("--method", type=click.Choice(["graph_slope", "cudagraph"]), default="graph_slope", show_default=True,
              help="Slope between graphs of many launches and of one, or one launch a graph.")  # fmt: skip
@click.option(
    "--blocks", default="4,6,8", show_default=True, help="Looks: block counts at which a clean shape may stop."
)
@click.option("--budget-us", type=BUDGET_US, default=2000.0, show_default=True, help="Device work of one graph.")
@click.option(
    "--processes",
    type=click.IntRange(1, 128),
    help="Spread the blocks of --blocks over so many fresh process pairs, and stop no shape early; in the place of "
    "--lanes, up to 8 of them at a time.",
)
def command(method: str, blocks: str, budget_us: float, **options: Any) -> int:
    """Measure and write OUT/head/<op>/benchmark_results.jsonl (and OUT/base/<op>/ with --base)."""
    looks = parse_looks(blocks)
    return run(options, method=method, looks=looks, budget_us=budget_us, timing=True)


def parse_looks(text: str) -> tuple[int, ...]:
    """Rising block counts. Raises WrongUsage."""
    try:
        looks = tuple(int(item) for item in text.split(","))
    except ValueError:
        looks = ()
    if not looks or looks[0] < 1 or any(b <= a for a, b in pairwise(looks)):
        raise WrongUsage(Problem(what=f"--blocks {text} is not a rising list of counts", file="", fix="such as 4,6,8"))
    return looks


def run(options: dict[str, Any], *, method: str, looks: tuple[int, ...], budget_us: float, timing: bool) -> int:
    """One session from options to files; returns the exit code."""
    inputs = read_inputs(
        op=options["op"],
        ledgers=options["ledgers"] or frozen_ledgers_dir(),
        ledger=options["ledger"],
        matrix=options["matrix"],
        candidate=options["candidate"],
        entrypoints=options.get("entrypoint") or (),
    )
    arms = parse_arms(options)
    both = options["base"] is not None
    selection = Selection(
        providers=split_list(options["providers"]),
        stages=split_list(options["stages"]),
        shapes=named_shapes(options),
        limit=options["limit"],
    )
    jobs, left_out = choose(inputs, selection, both=both, op=options["op_from"])
    gpus = choose_gpus(options)
    header = make_header(options, inputs, arms=arms, selection=selection, measuring=(method, looks, budget_us, timing))
    journal, finished, header = open_journal(options["out"], header=header, resume=options["resume"])
    try:
        done = {(record["shape_id"], record.get("process", 0)) for record in finished}
        processes = options.get("processes")
        parts = jobs if processes is None else spread(jobs, first=0, sizes=even(looks[-1], processes), process=0)
        waiting = [job for job in parts if (job.case.shape_id, job.process) not in done]
        settings = make_settings(options, header, arms=arms, measuring=(method, looks, budget_us, timing))
        with progress("replay" if timing else "correctness", len(waiting)) as step, arms_start(arms):
            session = measure(waiting, settings=settings, gpus=gpus, journal=journal, step=step)
        write = write_timed if timing else write_correctness
        rows = collect(options["out"], inputs, header=header, session=session, both=both, left_out=left_out)
        write(options["out"], rows, inputs)
        return conclude(options["out"], rows, jobs=jobs, session=session, header=header)
    finally:
        journal.close()


def named_shapes(options: dict[str, Any]) -> tuple[str, ...]:
    """The shape ids of --shape and --shapes-from. Raises UnusableInput for a file that names none."""
    listed: list[str] = []
    for path in options.get("shapes_from") or ():
        found = store.read_bytes(path).decode("utf-8", "replace").split()
        if not found:
            raise UnusableInput(Problem(what="names no shape", file=str(path), fix="one shape_id a line"))
        listed += found
    return tuple(dict.fromkeys((*split_list(options["shapes"]), *listed)))


def parse_arms(options: dict[str, Any]) -> dict[str, ArmSpec]:
    """The interpreter and paths of each side."""
    head = parse_spec(options["head"], side=HEAD)
    base = parse_spec(options["base"], side=BASE) if options["base"] is not None else head
    control = parse_spec(options["control"], side=CONTROL) if options["control"] is not None else base
    return {HEAD: head, BASE: base, CONTROL: control}


def choose_gpus(options: dict[str, Any]) -> list[str | None]:
    """The GPUs asked for; the simulation has as many as one asks for."""
    if not all(item.isdigit() for item in options["gpus"].split(",")) and options["gpus"] != "all":
        raise WrongUsage(Problem(what=f"--gpus {options['gpus']} is none of all, a number, a list", file=""))
    if options["simulate"] is not None:
        return [str(index) for index in picked_gpus("1" if options["gpus"] == "all" else options["gpus"])]
    return visible_gpus(options["gpus"])


Measuring = tuple[str, tuple[int, ...], float, bool]


def make_header(
    options: dict[str, Any], inputs: Inputs, *, arms: dict[str, ArmSpec], selection: Selection, measuring: Measuring
) -> dict[str, Any]:
    """The journal's first line; `fingerprint` is what an interrupted run must share to be resumed."""
    seed = options["seed"] if options["seed"] is not None else secrets.randbelow(1 << 31)
    return {
        "session_id": uuid.uuid4().hex[:16],
        "seed": seed,
        "secret": secrets.randbelow(1 << 62),
        "fingerprint": {
            "files": inputs.hashes,
            "candidates": {op: matrix.candidate_provider for op, matrix in inputs.matrices.items()},
            "entrypoints": list(options.get("entrypoint") or ()),
            "selection": [list(part) if isinstance(part, tuple) else part for part in _parts(selection)],
            "arms": {
                side: [spec.python, *spec.path, *spec.ld, *_named(spec), str(spec.commit)]
                for side, spec in arms.items()
            },
            "base": options["base"] is not None,
            "seed": options["seed"],
            "measuring": [measuring[0], list(measuring[1]), measuring[2], measuring[3]],
            "simulate": options["simulate"],
            "processes": options.get("processes"),
        },
    }


def _named(spec: ArmSpec) -> list[str]:
    return [f"{name}={value}" for name, value in spec.env]


def _parts(selection: Selection) -> tuple[Any, ...]:
    return (selection.providers, selection.stages, selection.shapes, selection.limit)


def make_settings(
    options: dict[str, Any], header: dict[str, Any], *, arms: dict[str, ArmSpec], measuring: Measuring
) -> Settings:
    """The settings of the session that the header describes."""
    method, looks, budget_us, timing = measuring
    return Settings(
        session_id=header["session_id"],
        seed=header["seed"],
        secret=header["secret"],
        arms=arms,
        folder=options["out"],
        device="gpu" if options["simulate"] is None else f"sim:{options['simulate']}",
        method=method,
        looks=looks,
        budget_us=budget_us,
        lanes=min(options.get("processes") or options["lanes"], MOST_LANES),
        pinned=options.get("processes") is not None,
        timing=timing,
        drift=options["drift"],
        timeouts={name: limit * options["watchdog"] for name, limit in TIMEOUTS.items()},
    )
