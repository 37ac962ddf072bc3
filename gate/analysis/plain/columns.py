"""Result rows as columns: what many rows have in common once, their numbers in arrays, odd rows as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gate.analysis.student import Floats
from gate.model.outcome import Measured, MeasuredResults, Results
from gate.model.problem import Problem

Keys = NDArray[np.uint64]
Places = NDArray[np.int64]
PREFIX, DIGITS = "sha1:", 16
NUMBERS = ("median_us", "p10_us", "p90_us", "eager_median_us", "host_overhead_us", "floor_us")
# No verdict reads them, so that rows which differ in them alone are of one kind.
UNREAD = ("effective_gbps", "effective_tflops")
COMMON = tuple(name for name in Measured.__struct_fields__ if name not in (*NUMBERS, *UNREAD, "shape_id", "blocks_us"))
# Rows of more kinds than this have too little in common to be columns.
MOST_KINDS = 4096
_common_of = attrgetter(*COMMON)
_number_of = {name: attrgetter(name) for name in NUMBERS}


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one run. Those of a plain kind: `keys` the digits of their shape_ids, `kind` which of `kinds` each
    is, `numbers` (rows, NUMBERS) with NaN for null. All others: `rest`. `line` and `rest_line` say in which order they
    came. `problems` as in MeasuredResults."""

    keys: Keys
    kind: Places
    numbers: Floats
    line: Places
    kinds: tuple[Measured, ...]
    rest: tuple[Measured, ...]
    rest_line: Places
    problems: tuple[Problem, ...] = ()

    @property
    def outcomes(self) -> tuple[Measured, ...]:
        """All rows as records, in the order in which they came."""
        return tuple(self.rows(np.arange(len(self.keys))))

    def of(self, name: str) -> Floats:
        """One column of numbers."""
        column: Floats = self.numbers[:, NUMBERS.index(name)]
        return column

    def rows(self, chosen: Places) -> list[Measured]:
        """Chosen rows of plain kinds, and all the others, as records in the order in which they came."""
        found = list(map(self.row, chosen.tolist())) + list(self.rest)
        order = np.argsort(np.concatenate([self.line[chosen], self.rest_line]), kind="stable")
        return [found[index] for index in order.tolist()]

    def row(self, index: int) -> Measured:
        """A row of a plain kind as a record."""
        values = (None if math.isnan(value) else value for value in self.numbers[index].tolist())
        numbers: dict[str, Any] = dict(zip(NUMBERS, values, strict=True))
        shape_id = f"{PREFIX}{int(self.keys[index]):016x}"
        row: Measured = msgspec.structs.replace(self.kinds[self.kind[index]], shape_id=shape_id, **numbers)
        return row


AnyResults = Results | MeasuredResults | Columns


def keys_of(ids: Sequence[str]) -> Keys | None:
    """The digits of shape_ids as numbers, None if any is not `sha1:` and 16 lower-case hex digits."""
    text = "".join(ids)
    width = len(PREFIX) + DIGITS
    if len(text) != width * len(ids) or not text.isascii():
        return None
    letters = np.frombuffer(text.encode("ascii"), dtype=np.uint8).reshape(len(ids), width)
    if not (letters[:, : len(PREFIX)] == np.frombuffer(PREFIX.encode(), dtype=np.uint8)).all():
        return None
    digits = letters[:, len(PREFIX) :].tobytes()
    if digits.translate(None, b"0123456789abcdef"):
        return None
    return np.frombuffer(bytes.fromhex(digits.decode("ascii")), dtype=">u8").astype(np.uint64)


def is_plain(kind: Measured) -> bool:
    """Whether rows of a kind may be judged by their numbers alone: measured, verified, with no remark on them."""
    return (
        kind.benchmark_status == "ok"
        and kind.correct is True
        and kind.timing_method not in (None, "codegen", "cudagraph")
        and kind.stable is not False
        and kind.dispatch_bound is not True
        and (kind.repeat_iters is None or kind.repeat_iters >= 1)
    )


def joined(parts: Sequence[Columns]) -> Columns:
    """Several parts of one run, in order."""
    kinds: dict[tuple[Any, ...], int] = {}
    numbered = []
    for part in parts:
        known = [kinds.setdefault(_common_of(one), len(kinds)) for one in part.kinds]
        numbered.append(np.array(known, dtype=np.int64)[part.kind])
    starts = np.cumsum([0, *(len(part.line) + len(part.rest) for part in parts)]).tolist()
    return Columns(
        keys=np.concatenate([NOTHING.keys, *(part.keys for part in parts)]),
        kind=np.concatenate([NOTHING.kind, *numbered]),
        numbers=np.concatenate([NOTHING.numbers, *(part.numbers for part in parts)]),
        line=np.concatenate([NOTHING.line, *(part.line + start for part, start in zip(parts, starts, strict=False))]),
        kinds=tuple(Measured(shape_id="", **dict(zip(COMMON, common, strict=True))) for common in kinds),
        rest=tuple(chain.from_iterable(part.rest for part in parts)),
        rest_line=np.concatenate(
            [NOTHING.line, *(part.rest_line + start for part, start in zip(parts, starts, strict=False))]
        ),
        problems=tuple(chain.from_iterable(part.problems for part in parts)),
    )


NOTHING = Columns(
    keys=np.empty(0, dtype=np.uint64),
    kind=np.empty(0, dtype=np.int64),
    numbers=np.empty((0, len(NUMBERS))),
    line=np.empty(0, dtype=np.int64),
    kinds=(),
    rest=(),
    rest_line=np.empty(0, dtype=np.int64),
)


def of_rows(rows: Sequence[Measured], problems: tuple[Problem, ...] = ()) -> Columns:
    """Rows as columns."""
    if not rows:
        return msgspec.structs.replace(NOTHING, problems=problems)
    kinds = Kinds()
    kind = np.array(list(map(kinds.of, rows)), dtype=np.int64)
    numbers = np.stack([_column(rows, name) for name in NUMBERS], axis=1)
    time, low, high = numbers[:, 0], numbers[:, 1], numbers[:, 2]
    with np.errstate(invalid="ignore"):
        plain = (kind >= 0) & (low > 0) & (low <= time) & (time <= high) & (high < math.inf)
    line = np.flatnonzero(plain)
    keys = keys_of([rows[index].shape_id for index in line.tolist()])
    if keys is None:
        line, keys = NOTHING.line, NOTHING.keys
        plain[:] = False
    other = np.flatnonzero(~plain)
    return Columns(
        keys=keys,
        kind=kind[plain],
        numbers=numbers[plain],
        line=line,
        kinds=kinds.plain,
        rest=tuple(rows[index] for index in other.tolist()),
        rest_line=other,
        problems=problems,
    )


def _column(rows: Sequence[Measured], name: str) -> Floats:
    """One number of every row, NaN for null; most runs leave several out altogether."""
    values = list(map(_number_of[name], rows))
    if values[0] is None and values.count(None) == len(values):
        return np.full(len(values), np.nan)
    return np.array(values, dtype=np.float64)


class Kinds:
    """What rows have in common, numbered as it is met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._plain: list[Measured] = []

    @property
    def plain(self) -> tuple[Measured, ...]:
        """The plain kinds, by number."""
        return tuple(self._plain)

    def of(self, row: Measured) -> int:
        """The number of the row's kind, -1 if it is not plain or there are too many."""
        if row.blocks_us is not None:
            return -1
        common = _common_of(row)
        found = self._numbers.get(common)
        if found is None:
            found = self._new(row, common) if len(self._numbers) < MOST_KINDS else -1
        return found

    def _new(self, row: Measured, common: tuple[Any, ...]) -> int:
        found = -1
        if is_plain(row):
            found = len(self._plain)
            self._plain.append(Measured(shape_id="", **dict(zip(COMMON, common, strict=True))))
        self._numbers[common] = found
        return found
