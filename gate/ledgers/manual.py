"""Knows shapes written by hand: a list of them in JSON or YAML, and `M,N,dtype` for a quick probe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gate.ledgers.draft import Draft, row_major
from gate.ledgers.known import Lacking, lacks_nothing, unknown
from gate.ledgers.ops.norms import CODES, EPS, STREAMS
from gate.ledgers.ops.point import size
from gate.ledgers.positions import entry_lines
from gate.model.problem import Problem
from gate.model.shape import DTYPES, ArgValue, Source, Stage, fault

# The ops a probe of two sizes describes, and what their shapes hold besides.
TWO_SIZED: dict[str, dict[str, ArgValue]] = {
    **{op: {"eps": EPS, **(CODES if op.endswith("quant") else {})} for op in STREAMS},
    "quant": CODES,
    "rmsnorm": {"eps": EPS},
    "softmax": {},
}
_BY_HAND = Source(kind="manual")


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One shape of a manual list; only `op_type`, `dtype` and `args` must be there."""

    op_type: str
    dtype: str
    args: dict[str, ArgValue]
    model: str = "manual"
    stage: Stage = "model_config"
    kernel_name: str = ""
    layout: dict[str, Any] = msgspec.field(default_factory=row_major)
    occurrences: int | None = None
    notes: str = ""


def read(
    document: Any, *, file: str, data: bytes = b"", lacking: Lacking = lacks_nothing
) -> tuple[list[Draft], list[Problem]]:
    """The shapes of a parsed list (or of its `shapes`), which is used up, and a problem for each entry that is none.

    With `data`, the bytes that the list was parsed from, problems have their lines. An entry for which `lacking` has
    words is refused with them.
    """
    entries = document.get("shapes") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        return [], [Problem(what="not a list of shapes", file=file)]
    drafts: list[Draft] = []
    faults: list[tuple[int, str]] = []
    for position, given in enumerate(entries):
        # A list may hold a million entries: each is let go as soon as it is a draft.
        entries[position] = None
        try:
            drafts.append(_draft(msgspec.convert(given, Entry), lacking))
        except (msgspec.ValidationError, ValueError) as error:
            faults.append((position, f"shape {position}: {error}"))
    lines = entry_lines(data, key="shapes") if faults and data else []
    return drafts, [
        Problem(what=what, file=file, line=lines[position] if position < len(lines) else None)
        for position, what in faults
    ]


def _draft(entry: Entry, lacking: Lacking) -> Draft:
    if not entry.op_type or not entry.dtype or not entry.args:
        raise ValueError("op_type, dtype and args must not be empty")
    if why := fault(op_type=entry.op_type, dtype=entry.dtype, args=entry.args) or unknown(entry.op_type):
        raise ValueError(why)
    if entry.occurrences is not None and entry.occurrences < 0:
        raise ValueError("occurrences must not be negative")
    if why := lacking(entry.op_type, entry.args):
        raise ValueError(why)
    return Draft(
        op_type=entry.op_type,
        model=entry.model or "manual",
        stage=entry.stage,
        dtype=entry.dtype,
        args=entry.args,
        kernel_name=entry.kernel_name,
        layout=entry.layout,
        source=_BY_HAND,
        occurrences=entry.occurrences,
        notes=entry.notes,
    )


def diagnostic(op: str, texts: Iterable[str]) -> list[Draft]:
    """Probes of `op` from texts such as `32768,8192,bf16`. Raises ValueError with one sentence."""
    if op not in TWO_SIZED:
        raise ValueError(f"{op} is not described by M,N,dtype; {', '.join(sorted(TWO_SIZED))} are")
    return [_probe(op, text) for text in texts]


def _probe(op: str, text: str) -> Draft:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not parts[0].isdecimal() or not parts[1].isdecimal():
        raise ValueError(f"{text!r} is not M,N,dtype")
    if parts[2] not in DTYPES:
        raise ValueError(f"{parts[2]!r} is not a dtype; {', '.join(DTYPES)} are")
    return Draft(
        op_type=op,
        model="diagnostic",
        stage="diagnostic",
        dtype=parts[2],
        args={"M": size(int(parts[0]), "M"), "N": size(int(parts[1]), "N"), **TWO_SIZED[op]},
        source=Source(kind="diagnostic"),
    )
