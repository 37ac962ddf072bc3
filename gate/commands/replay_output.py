"""What `gate replay` and `gate correctness` leave behind: rows, samples, manifest, counts and the exit code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from gate import store
from gate.commands.replay_inputs import Inputs, by_op
from gate.model.outcome import Outcome, Status
from gate.model.problem import Exit, Problem, UnusableInput
from gate.model.text import counted, one_line
from gate.replay.environment import machine as read_machine
from gate.replay.job import Job
from gate.replay.journal import merged
from gate.replay.journal_lines import JOURNAL, read_lines
from gate.replay.machine import Session
from gate.replay.rows import both_sides, build_rows
from gate.replay.samples import encode_samples, sample_rows

# Statuses of rows that were tried and did not come out well.
TRIED = frozenset({"failed", "incorrect", "oom", "unsupported"})
LONGEST_REASON = 200


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
    lines = read_lines(out / JOURNAL)
    records = merged(line for line in lines if "shape_id" in line)
    facts = {
        "session_id": header["session_id"],
        "seed": header["seed"],
        "method": header["fingerprint"]["measuring"][0],
        "both": both,
        "driver": read_machine()["driver"],
        "commits": {side: _commit(spec) for side, spec in header["fingerprint"]["arms"].items()},
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


def _commit(arm: list[str]) -> str | None:
    return None if arm[-1] == "None" else arm[-1]


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


def manifest(
    session: Session, header: dict[str, Any], *, counts: dict[str, dict[Status, int]], missing: list[str], wanted: int
) -> dict[str, Any]:
    """What was measured where: the proof that nothing is missing, and how the machine's time was spent (seconds)."""
    return {
        "session_id": header["session_id"],
        "seed": header["seed"],
        "host": read_machine(),
        "machines": [machine.as_dict() for machine in session.machines],
        "shapes_wanted": wanted,
        "missing": missing,
        "rows": counts,
        "stopped": session.stopped,
        "wall_s": round(session.wall_s, 3),
        "timed_gpu_s": round(session.timed_gpu_s, 3),
        "token_held_s": round(session.token_held_s, 3),
        "measuring_s": round(session.measuring_s, 3),
        "worker_restarts": session.restarts,
        "fingerprint": header["fingerprint"],
    }


def conclude(
    out: Path, rows: dict[str, list[Outcome]], *, jobs: list[Job], session: Session, header: dict[str, Any]
) -> int:
    """Writes the manifest, tells the counts, and gives the exit code: 2 when not all was measured, or nothing is ok."""
    counts = {
        side: dict(sorted(Counter(row.benchmark_status for row in found).items())) for side, found in rows.items()
    }
    done = {row.shape_id for found in rows.values() for row in found if row.skip_reason != "not measured in this run"}
    missing = sorted({job.case.shape_id for job in jobs} - done) if session.stopped is None else []
    store.write_json(out / "manifest.json", manifest(session, header, counts=counts, missing=missing, wanted=len(jobs)))
    for side, found in counts.items():
        told = ", ".join(f"{n} {status}" for status, n in found.items())
        click.echo(f"{side}: {told}{_first_reason(rows[side])}", err=True)
    if session.wall_s > 0 and jobs:
        whole_s = session.wall_s * max(len(session.machines), 1)
        held, alone, timed = (seconds / whole_s for seconds in session.busy_s)
        told = f"GPU in use {held:.0%} of the time, measured on {alone:.0%}, timed work {timed:.0%}"
        click.echo(f"{session.wall_s:.1f} s; {told}", err=True)
    if session.stopped is not None:
        raise UnusableInput(Problem(what=session.stopped, file="", fix="let the machine settle, then --resume"))
    if missing or not any("ok" in found for found in counts.values()):
        what = f"{counted(len(missing), 'shape was', 'shapes were')} not measured" if missing else "no row is ok"
        raise UnusableInput(Problem(what=what, file=str(out), fix=f"see {_reasons(counts)} in the rows and OUT/logs"))
    return Exit.PASS


def _first_reason(rows: list[Outcome]) -> str:
    """The reason of the first row that was tried and is not ok, and how many other ones there are; empty for none."""
    bad = [row for row in rows if row.benchmark_status in TRIED]
    found = list(dict.fromkeys(why for row in bad if (why := row.correctness_error or row.skip_reason)))
    if not found:
        return ""
    line = one_line(" ".join(found[0].split()))
    first = line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."
    return f"; {first}" + (f" (and {counted(len(found) - 1, 'other reason')})" if found[1:] else "")


def _reasons(counts: dict[str, dict[Status, int]]) -> str:
    """The fields in which rows of these statuses say why they are not ok."""
    statuses = {status for found in counts.values() for status in found} - {"ok", "not_configured"}
    fields = ["correctness_error"] if "incorrect" in statuses else []
    return " and ".join([*fields, "skip_reason"] if statuses != {"incorrect"} else fields)
