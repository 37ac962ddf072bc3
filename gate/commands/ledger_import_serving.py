"""`gate ledger import sglang` and `atom`: what servers ran, and what they are asked to run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from gate.commands.ledger_put import (
    FILE,
    any_sizes,
    chosen_model,
    dtype_option,
    finish,
    ops_option,
    put,
    target_options,
)
from gate.commands.telling import say
from gate.ledgers import atom, documents, serving, sglang_log, torch_trace
from gate.ledgers.draft import Draft, one_row_per_physical_shape
from gate.ledgers.ops import DERIVE, usual_dtype
from gate.ledgers.ops.point import Point
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import STAGES, Source, Stage
from gate.model.text import counted
from gate.schemas.recognise import recognise
from gate.store import read_bytes, read_start, stream_lines

MOST_UNMAPPED = 12


@click.command("sglang")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--config", type=FILE, help="A Hugging Face config.json; a server log needs it, or --model.")
@click.option("--model", "name", help="A model of the project's own list, or the name for --config or a trace.")
@click.option("--tp", type=click.IntRange(min=1), default=1, show_default=True, help="Ranks of tensor parallelism.")
@dtype_option()
@click.option(
    "--buckets", callback=any_sizes, default="", help="Sizes token counts are rounded up to; default powers of 2."
)
@click.option(
    "--decode-log-interval",
    type=click.IntRange(min=1),
    default=sglang_log.DECODE_LOG_INTERVAL,
    show_default=True,
    help="Steps that one decode line of the log stands for, as the server was told.",
)
@click.option("--stage", type=click.Choice(STAGES), default="mixed", help="Of a trace's operators outside any step.")
@ops_option(DERIVE)
@target_options
def sglang_verb(
    files: tuple[Path, ...],
    config: Path | None,
    name: str | None,
    tp: int,
    dtype: str | None,
    buckets: tuple[int, ...],
    decode_log_interval: int,
    stage: Stage,
    ops: tuple[str, ...],
    into: Path | None,
    ledgers: Path | None,
) -> int:
    """A serving trace: SGLang's server log, or a torch profiler trace with recorded shapes; fills the weights."""
    traces = [path for path in files if _is_trace(path)]
    logs = [path for path in files if path not in traces]
    drafts: list[Draft] = []
    problems: list[Problem] = []
    for path in traces:
        found, faults = _from_trace(path, name=name, stage=stage)
        drafts += [draft for draft in found if draft.op_type in ops]
        problems += faults
    if logs:
        model = chosen_model(config, name)
        reading = sglang_log.Reading(tp=tp, buckets=buckets, decode_log_interval=decode_log_interval)
        steps, unread = _from_logs(logs, reading)
        problems += unread
        for op in ops:
            source = Source(kind="sglang_trace", notes="SGLang server log")
            drafts += serving.drafts(op, model=model, steps=steps, dtype=dtype or usual_dtype(op), source=source)
    if not drafts:
        raise UnusableInput(*problems, Problem(what="no step and no operator of a ledger op", file=str(files[0])))
    put(one_row_per_physical_shape(drafts), kinds=frozenset({"sglang_trace"}), into=into, ledgers=ledgers)
    return finish(problems)


def _is_trace(path: Path) -> bool:
    """A trace is JSON; a log is read line by line, so it is told by its beginning alone."""
    start = read_start(path)
    log_like = recognise(start) == "sglang_log"
    return start.startswith(documents.GZIP) or (start.lstrip()[:1] in (b"{", b"[") and not log_like)


def _from_trace(path: Path, *, name: str | None, stage: Stage) -> tuple[tuple[Draft, ...], tuple[Problem, ...]]:
    document = documents.parse(read_bytes(path), file=str(path))
    found = torch_trace.read(document, file=str(path), model=name or "traced", stage=stage)
    launches = sum(draft.occurrences or 0 for draft in found.drafts)
    say(f"{path}: {counted(launches, 'launch', 'launches')} of {counted(len(found.drafts), 'shape')}")
    unmapped = sorted(found.unmapped.items(), key=lambda item: (-item[1], item[0]))
    for operator, count in unmapped[:MOST_UNMAPPED]:
        say(f"  no ledger op: {operator} ({counted(count, 'call')})")
    if len(unmapped) > MOST_UNMAPPED:
        rest = sum(count for _, count in unmapped[MOST_UNMAPPED:])
        say(f"  no ledger op: {counted(len(unmapped) - MOST_UNMAPPED, 'other operator')} ({counted(rest, 'call')})")
    return found.drafts, found.problems


def _from_logs(paths: list[Path], reading: sglang_log.Reading) -> tuple[dict[Point, int], list[Problem]]:
    steps: Counter[Point] = Counter()
    problems: list[Problem] = []
    for path in paths:
        found = sglang_log.read(stream_lines(path), file=str(path), reading=reading)
        steps.update(found.steps)
        problems += found.problems
        say(
            f"{path}: {found.prefill_lines} prefill and {counted(found.decode_lines, 'decode line')}, "
            f"{found.empty_lines} without tokens"
        )
    return dict(steps), problems


@click.command("atom")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--config", type=FILE, help="A Hugging Face config.json; kernel shapes need it, or --model.")
@click.option("--model", "name", help="A model of the project's own list, or the name for --config.")
@click.option("--tp", type=click.IntRange(min=1), default=1, show_default=True, help="Ranks of tensor parallelism.")
@dtype_option()
@click.option(
    "--chunk", type=click.IntRange(min=1), default=atom.CHUNK, show_default=True, help="Most tokens a prefill."
)
@ops_option(DERIVE)
@target_options
def atom_verb(
    files: tuple[Path, ...],
    config: Path | None,
    name: str | None,
    tp: int,
    dtype: str | None,
    chunk: int,
    ops: tuple[str, ...],
    into: Path | None,
    ledgers: Path | None,
) -> int:
    """Serving anchors {input_len, output_len, concurrency}: scenario rows, and kernel shapes for a known model."""
    anchors: list[atom.Anchor] = []
    problems: list[Problem] = []
    for path in files:
        found, faults = atom.read(documents.parse(read_bytes(path), file=str(path)), file=str(path))
        anchors += found
        problems += faults
    model = chosen_model(config, name) if config is not None or name is not None else None
    drafts = list(atom.scenarios(anchors, model=model.name if model is not None else None))
    for op in ops if model is not None else ():
        assert model is not None
        kind = dtype or usual_dtype(op)
        drafts += atom.kernels(anchors, ops=(op,), model=model, tp=tp, dtype=kind, chunk=chunk)
    put(one_row_per_physical_shape(drafts), kinds=frozenset({atom.KIND}), into=into, ledgers=ledgers, problems=problems)
    return finish(problems)
