"""Knows SGLang's server log: which steps of how many tokens a server ran.

A prefill line stands for one step; a decode line for as many as `--decode-log-interval` says (40 unless set), which
is why its count is multiplied. Known forms: `Prefill batch. #new-seq: 1, #new-token: 6, #cached-token: 0` and
`Decode batch. #running-req: 16, #token: 16763` of 2024, and today's `Prefill batch [7], ...` and
`Decode batch [51341], #running-req: 317, #token: 1094261` or `#full token:` where part of the cache is windowed.
A `Decode batch [first graph replay]` line repeats the step that the next line counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import msgspec

from gate.ledgers.ops.point import Point
from gate.ledgers.serving import bucket
from gate.model.problem import Problem

DECODE_LOG_INTERVAL = 40
# Fewer cached tokens a request are the start marker and the like, and change no kernel's shape.
FEW_CACHED = 64
_BATCH = re.compile(rb"\b(Prefill|Decode) batch(?: ?\[([^\]\n]{1,40})\])?[.,:]? ")
_FIELD = re.compile(rb"#(new-seq|new-token|cached-token|running-req|token|full token): ?(\d{1,12})(?!\d)")
_NEEDS = {b"Prefill": b"new-token", b"Decode": b"running-req"}


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """What a log tells: steps by point, lines used, and the batch lines that could not be read."""

    steps: dict[Point, int]
    prefill_lines: int
    decode_lines: int
    empty_lines: int
    problems: tuple[Problem, ...] = ()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a log is read: the ranks, the buckets of token counts (powers of two if empty), steps a decode line."""

    tp: int = 1
    buckets: tuple[int, ...] = ()
    decode_log_interval: int = DECODE_LOG_INTERVAL


def read(lines: Iterable[tuple[int, bytes]], *, file: str, reading: Reading) -> Steps:
    """The steps in a log's lines. A batch line that lacks its token count is a problem, other lines are not."""
    steps: Counter[Point] = Counter()
    seen = Counter({b"Prefill": 0, b"Decode": 0, b"empty": 0})
    problems: list[Problem] = []
    for number, line in lines:
        match = _BATCH.search(line)
        if match is None or match[2] == b"first graph replay":
            continue
        kind = match[1]
        fields = {name: int(value) for name, value in _FIELD.findall(line, match.end() - 1)}
        if _NEEDS[kind] not in fields:
            what = f"a {kind.decode()} batch line without #{_NEEDS[kind].decode()}"
            problems.append(Problem(what=what, file=file, line=number, fix="the line is cut off or of an unknown form"))
        elif fields[_NEEDS[kind]] == 0:
            seen[b"empty"] += 1
        else:
            seen[kind] += 1
            point, count = _step(kind, fields, reading)
            steps[point] += count
    return Steps(
        steps=dict(steps),
        prefill_lines=seen[b"Prefill"],
        decode_lines=seen[b"Decode"],
        empty_lines=seen[b"empty"],
        problems=tuple(problems),
    )


def _step(kind: bytes, fields: dict[bytes, int], reading: Reading) -> tuple[Point, int]:
    if kind == b"Prefill":
        tokens = bucket(fields[b"new-token"], reading.buckets)
        batch = min(max(fields.get(b"new-seq", 1), 1), fields[b"new-token"])
        cached = fields.get(b"cached-token", 0) // batch
        context = bucket(cached) if cached >= FEW_CACHED else None
        return Point(tokens=tokens, tp=reading.tp, phase="prefill", batch=min(batch, tokens), context=context), 1
    running = fields[b"running-req"]
    held = fields.get(b"token", fields.get(b"full token"))
    context = bucket(max(held // running, 1)) if held else None
    tokens = bucket(running, reading.buckets)
    return Point(
        tokens=tokens, tp=reading.tp, phase="decode", batch=tokens, context=context
    ), reading.decode_log_interval
