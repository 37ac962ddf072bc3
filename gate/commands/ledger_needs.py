"""Which dimensions a ledger row must have: the ops themselves know, and only a verb may ask them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gate.ledgers.scan import FIX
from gate.model.problem import Problem
from gate.replay import op
from gate.replay.op import UnknownOp, load_op


class _Row(msgspec.Struct, frozen=True):
    """Of a ledger row what is looked at here."""

    op_type: str
    args: dict[str, Any]
    shape_id: str | None = None


_DECODER = msgspec.json.Decoder(_Row)


@functools.cache
def needs(op_type: str) -> tuple[str, ...]:
    """The dimensions that each shape of the op must have, sorted; none of an op that is not measured."""
    try:
        return load_op(op_type).needs()
    except UnknownOp:
        return ()


def lacking(op_type: str, args: Mapping[str, Any]) -> str:
    """The dimensions that the op needs and these args do not have, in words; empty if they have all."""
    return op.lacking(op_type, needs(op_type), args, owner="its args")


def lacking_rows(lines: Iterable[tuple[int, bytes]], *, file: str) -> list[Problem]:
    """The lines of a ledger whose shapes lack a dimension; what is no ledger row is not looked at."""
    found = []
    for number, raw in lines:
        try:
            row = _DECODER.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if what := lacking(row.op_type, row.args):
            found.append(Problem(what=what, file=file, line=number, fix=FIX, shape_id=row.shape_id))
    return found
