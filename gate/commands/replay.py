"""`gate replay`: measures head, base and the baselines of a ledger on this machine's GPUs, and writes result rows."""

from __future__ import annotations

import secrets
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gate import store
from gate.commands.progress import progress
from gate.commands.replay_inputs import Inputs, Selection, by_op, choose, read_inputs, split_list
from gate.model.outcome import Outcome
from gate.model.problem import Exit, Problem, UnusableInput, WrongUsage
from gate.replay.arms import ArmSpec, parse_spec
from gate.replay.blocks import BASE, CONTROL, HEAD
from gate.replay.environment import machine as read_machine
from gate.replay.job import Job, Settings
from gate.replay.journal import open_journal
from gate.replay.rows import both_sides, build_rows
from gate.replay.runner import Session, measure, visible_gpus
from gate.replay.samples import encode_samples, sample_rows
from gate.resources import frozen_ledgers_dir

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is measured, shared by replay and correctness."""
    options = [
        click.option("--op", required=True, help="An op, or all."),
        click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl; default those of this package."),
        click.option("--ledger", type=FILE, help="One ledger, with --matrix."),
        click.option("--matrix", type=FILE, help="One baseline matrix, with --ledger."),
        click.option("--op-from", metavar="MODULE:ATTR", help="Where the op is defined, if not in this package."),
        click.option("--out", type=FOLDER, required=True, help="Where the results go."),
        click.option("--head", metavar="SPEC", help="python=...,path=...,ld=...,flydsl=...,env=N:V,commit=... of head."),
        click.option("--base", metavar="SPEC", help="The same of base; without it only head is measured."),
        click.option("--control", metavar="SPEC", help="The same of the baselines; default base's, else head's."),
        click.option("--candidate", help="The candidate instead of the matrix's."),
        click.option("--providers", multiple=True, help="Only these baselines (repeat, or join with commas)."),
        click.option("--stages", multiple=True, help="Only shapes of these stages."),
        click.option("--shape", "shapes", multiple=True, help="Only these shape ids."),
        click.option("--limit", type=click.IntRange(min=1), help="At most this many shapes."),
        click.option("--seed", type=int, help="Orders the blocks; default drawn and recorded."),
        click.option("--resume", is_flag=True, help="Go on with the interrupted run in --out."),
        click.option("--gpus", default="all", show_default=True, help="all, a number, or indices such as 0,2."),
        click.option("--lanes", type=click.IntRange(1, 4), default=2, show_default=True, help="Shapes prepared ahead, per GPU."),
        click.option("--watchdog", type=float, default=1.0, show_default=True, help="Stretches the time limits of a worker's steps."),
        click.option("--drift", type=click.FloatRange(0.001), default=0.03, show_default=True, help="Stop when a canary moves by this share."),
        click.option("--simulate", metavar="OPTIONS", help="Use the simulated GPU (rehearsal; rows say so).", hidden=True),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.command(short_help="Measure head, base and the baselines on this machine's GPUs.")
@input_options
@click.option("--method", type=click.Choice(["graph_slope", "cudagraph"]), default="graph_slope", show_default=True)
@click.option(
    "--blocks", default="4,6,8", show_default=True, help="Looks: block counts at which a clean shape may stop."
)
@click.option("--budget-us", type=float, default=2000.0, show_default=True, help="Device work of one graph.")
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
    if not looks or looks[0] < 1 or any(b <= a for a, b in zip(looks, looks[1:], strict=False)):
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
    )
    arms = parse_arms(options)
    both = options["base"] is not None
    selection = Selection(
        providers=split_list(options["providers"]),
        stages=split_list(options["stages"]),
        shapes=split_list(options["shapes"]),
        limit=options["limit"],
    )
    jobs, left_out = choose(inputs, selection, both=both, op=options["op_from"])
    gpus = choose_gpus(options)
    header = make_header(options, inputs, arms=arms, selection=selection, measuring=(method, looks, budget_us, timing))
    journal, finished, header = open_journal(options["out"], header=header, resume=options["resume"])
    try:
        records = {record["shape_id"]: record for record in finished}
        waiting = [job for job in jobs if job.case.shape_id not in records]
        settings = make_settings(options, header, arms=arms, measuring=(method, looks, budget_us, timing))
        with progress("replay" if timing else "correctness", len(waiting)) as step:
            session = measure(waiting, settings=settings, gpus=gpus, journal=journal, step=step)
        write = write_timed if timing else write_correctness
        rows = collect(options["out"], inputs, header=header, session=session, both=both, left_out=left_out)
        write(options["out"], rows, inputs)
        return conclude(options["out"], rows, jobs=jobs, session=session, header=header)
    finally:
        journal.close()


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
        return [str(index) for index in range(1 if options["gpus"] == "all" else int(options["gpus"]))]
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
            "selection": [list(part) if isinstance(part, tuple) else part for part in _parts(selection)],
            "arms": {side: [spec.python, *spec.path, *spec.ld, str(spec.commit)] for side, spec in arms.items()},
            "base": options["base"] is not None,
            "seed": options["seed"],
            "measuring": [measuring[0], list(measuring[1]), measuring[2], measuring[3]],
            "simulate": options["simulate"],
        },
    }


def _parts(selection: Selection) -> tuple[Any, ...]:
    return (selection.providers, selection.stages, selection.shapes, selection.limit)


def make_settings(
    options: dict[str, Any], header: dict[str, Any], *, arms: dict[str, ArmSpec], measuring: Measuring
) -> Settings:
    """The settings of the session that the header describes."""
    method, looks, budget_us, timing = measuring
    plain = Settings(session_id="", seed=0, secret=0, arms={}, folder=options["out"])
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
        lanes=options["lanes"],
        timing=timing,
        drift=options["drift"],
        timeouts={name: limit * options["watchdog"] for name, limit in plain.timeouts.items()},
    )


def collect(
    out: Path,
    inputs: Inputs,
    *,
    header: dict[str, Any],
    session: Session,
    both: bool,
    left_out: dict[tuple[str, str], str],
) -> dict[str, list[Outcome]]:
    """Every row of each side, from the journal, and the samples and manifest written beside them."""
    from gate.replay.journal import JOURNAL, read_lines

    lines = read_lines(out / JOURNAL)
    records = {line["shape_id"]: line for line in lines if "shape_id" in line}
    facts = {
        "session_id": header["session_id"],
        "seed": header["seed"],
        "method": header["fingerprint"]["measuring"][0],
        "both": both,
        "driver": read_machine()["driver"],
        "commits": {
            side: spec[-1] if spec[-1] != "None" else None for side, spec in header["fingerprint"]["arms"].items()
        },
        "stopped": session.stopped,
    }
    ordered = [records[shape.shape_id] for shape in inputs.shapes if shape.shape_id in records]
    suffix, data = encode_samples(list(sample_rows(ordered, session_id=header["session_id"])))
    store.write_bytes(out / f"raw_samples{suffix}", data)
    return {
        side: build_rows(
            side=side,
            shapes=inputs.shapes,
            matrices=inputs.matrices,
            records=records,
            session=facts,
            not_selected=left_out,
        )
        for side in both_sides(facts)
    }


def write_timed(out: Path, rows: dict[str, list[Outcome]], inputs: Inputs) -> None:
    """OUT/<side>/<op>/benchmark_results.jsonl and .csv."""
    for side, outcomes in rows.items():
        for op in by_op(inputs.matrices, inputs.shapes):
            own = [row for row in outcomes if row.op_type == op]
            store.write_results(out / side / op / store.RESULTS_FILE, own)


def write_correctness(out: Path, rows: dict[str, list[Outcome]], inputs: Inputs) -> None:
    """OUT/<side>/<op>/correctness_results.jsonl and .csv: the same rows without times."""
    for side, outcomes in rows.items():
        for op in by_op(inputs.matrices, inputs.shapes):
            own = [row for row in outcomes if row.op_type == op]
            store.write_results(out / side / op / "correctness_results.jsonl", own)


def conclude(
    out: Path, rows: dict[str, list[Outcome]], *, jobs: list[Job], session: Session, header: dict[str, Any]
) -> int:
    """Writes the manifest, tells the counts, and gives the exit code: 2 when the run is not whole or measured nothing."""
    counts = {
        side: dict(sorted(Counter(row.benchmark_status for row in found).items())) for side, found in rows.items()
    }
    done = {row.shape_id for found in rows.values() for row in found if row.skip_reason != "not measured in this run"}
    missing = sorted({job.case.shape_id for job in jobs} - done) if session.stopped is None else []
    busy = sum(machine.token.gpu_us for machine in session.machines) / 1e6
    held = sum(machine.token.held_s for machine in session.machines)
    store.write_json(
        out / "manifest.json",
        {
            "session_id": header["session_id"],
            "seed": header["seed"],
            "host": read_machine(),
            "machines": [machine.as_dict() for machine in session.machines],
            "shapes_wanted": len(jobs),
            "missing": missing,
            "rows": counts,
            "stopped": session.stopped,
            "wall_s": round(session.wall_s, 3),
            "timed_gpu_s": round(busy, 3),
            "token_held_s": round(held, 3),
            "worker_restarts": session.restarts,
            "fingerprint": header["fingerprint"],
        },
    )
    for side, found in counts.items():
        click.echo(f"{side}: " + ", ".join(f"{n} {status}" for status, n in found.items()), err=True)
    if session.wall_s > 0 and jobs:
        share = held / session.wall_s / max(len(session.machines), 1)
        click.echo(
            f"{session.wall_s:.1f} s; GPU held by measurement {share:.0%} of the time, {busy:.2f} s of it timed work",
            err=True,
        )
    if session.stopped is not None:
        raise UnusableInput(Problem(what=session.stopped, file="", fix="let the machine settle, then --resume"))
    if missing or not any("ok" in found for found in counts.values()):
        what = f"{len(missing)} shapes were not measured" if missing else "no row is ok"
        raise UnusableInput(Problem(what=what, file=str(out), fix="see skip_reason in the rows and OUT/logs"))
    return Exit.PASS
