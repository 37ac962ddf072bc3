"""Knows shapes written by hand: a list of them in JSON or YAML, and `M,N,dtype` for a quick probe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gate.ledgers.draft import Draft, row_major
from gate.ledgers.ops.norms import EPS
from gate.ledgers.ops.point import LARGEST, size
from gate.model.problem import Problem
from gate.model.shape import ArgValue, Source, Stage

# The ops a probe of two sizes describes, and what their shapes hold besides.
TWO_SIZED: dict[str, dict[str, ArgValue]] = {
    "layernorm": {"eps": EPS},
    "quant": {"out_dtype": "int8"},
    "rmsnorm": {"eps": EPS},
    "softmax": {},
}
_BY_HAND = Source(kind="manual")
DTYPES = ("bf16", "f16", "f32", "fp8", "fp4", "int8")


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


def read(document: Any, *, file: str) -> tuple[list[Draft], list[Problem]]:
    """The shapes of a parsed list (or of its `shapes`), which is used up, and a problem for each entry that is none."""
    entries = document.get("shapes") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        return [], [Problem(what="not a list of shapes", file=file)]
    drafts: list[Draft] = []
    problems: list[Problem] = []
    for position, given in enumerate(entries):
        # A list may hold a million entries: each is let go as soon as it is a draft.
        entries[position] = None
        try:
            drafts.append(_draft(msgspec.convert(given, Entry)))
        except (msgspec.ValidationError, ValueError) as error:
            problems.append(Problem(what=f"shape {position}: {error}", file=file))
    return drafts, problems


def _draft(entry: Entry) -> Draft:
    if not entry.op_type or not entry.dtype or not entry.args:
        raise ValueError("op_type, dtype and args must not be empty")
    for name, value in entry.args.items():
        if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
            raise ValueError(f"{name} is {str(value)[:40]}, more than 2^40")
    if entry.occurrences is not None and entry.occurrences < 0:
        raise ValueError("occurrences must not be negative")
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
