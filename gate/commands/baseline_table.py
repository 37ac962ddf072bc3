"""What people read of baselines: one line for each stored one, and the ratios of two of them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gate import store
from gate.analysis.drift import OpDrift
from gate.commands.baseline_files import FILES, Place
from gate.ledgers.freeze import sha256
from gate.ledgers.ratios import Ratio
from gate.model.codegen import CodegenRecord
from gate.model.text import counted

WIDTH = 200
MOST_ROWS = 20


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One stored file: `age_days` is null where no promotion is written down for what it holds now.

    `promotions` counts the lines of its provenance, this one included; `missing` are shapes that were not measured.
    """

    op_type: str
    name: str
    contents: str
    gpu: str | None
    timing_method: str
    cache_state: str | None
    age_days: int | None
    commit: str | None
    rows: int
    timed: int | None
    promotions: int
    waived: tuple[str, ...] = ()
    release: str | None = None
    missing: int = 0


def entries(found: Place, *, today: date) -> list[Entry]:
    """The stored files of one folder."""
    return [_entry(found, contents, today=today) for contents in FILES if found.stored(contents) is not None]


def _entry(found: Place, contents: str, *, today: date) -> Entry:
    data, last = found.stored(contents) or b"", found.last(contents)
    if last is None or last.sha256 != sha256(data):
        return _unwritten(found, contents)
    return Entry(
        op_type=last.op_type,
        name=found.folder.name,
        contents=contents,
        gpu=last.gpu,
        timing_method=last.timing_method,
        cache_state=last.cache_state,
        age_days=(today - last.date).days,
        commit=last.commit,
        rows=last.rows,
        timed=last.timed,
        promotions=sum(line.contents == contents for line in found.lines),
        waived=last.waived,
        release=last.release,
        missing=last.missing,
    )


def _unwritten(found: Place, contents: str) -> Entry:
    """Machine code that `gate codegen record` wrote: the records say themselves what compiled them."""
    records = list(store.read_codegen([found.folder / FILES[contents]]).values())
    return Entry(
        op_type=found.op.name,
        name=found.folder.name,
        contents=contents,
        gpu=None,
        timing_method="codegen",
        cache_state=None,
        age_days=None,
        commit=_commit(records),
        rows=len(records),
        timed=sum(record.status == "ok" for record in records),
        promotions=sum(line.contents == contents for line in found.lines),
    )


def _commit(records: Sequence[CodegenRecord]) -> str | None:
    said = {record.toolchain.kernels_commit or f"flydsl {record.toolchain.flydsl_version}" for record in records}
    return ", ".join(sorted(said)) or None


def overview(found: Sequence[Entry]) -> str:
    """The table of `gate baseline show`."""
    if not found:
        return "no baseline is stored"
    lines = [
        (
            one.op_type,
            f"{one.name} (pinned)" if one.release else one.name,
            one.gpu or "none",
            one.timing_method,
            one.cache_state or "none",
            "not written down" if one.age_days is None else f"{one.age_days} d",
            (one.commit or "unknown")[:12] if one.age_days is not None else one.commit or "unknown",
            f"{one.rows}, {counted(one.missing, 'shape')} missing" if one.missing else str(one.rows),
            str(one.promotions),
        )
        for one in found
    ]
    titles = ("op", "folder", "GPU", "method", "cache", "age", "commit", "rows", "promotions")
    return _table(titles, lines)


def drifts(found: Sequence[tuple[str, OpDrift]]) -> Iterator[str]:
    """The lines of `gate baseline drift`: one for each op, and the slowest rows of those that drifted."""
    lines = [
        (
            one.op_type,
            release,
            one.state,
            f"{one.n} of {one.of}",
            *("none" if value is None else f"{value:.4f}" for value in (one.ratio, one.low, one.controls)),
            f"{one.limit:.4f}",
        )
        for release, one in found
    ]
    titles = ("op", "release", "state", "rows", "head / release", "at least", "controls", "limit")
    yield from _table(titles, lines).splitlines()
    slow = [(one.op_type, row) for _, one in found for row in one.rows if row.drifted][:MOST_ROWS]
    for op, row in slow:
        times = f"{row.release_us:.4g} us, now {row.head_us:.4g} us"
        yield f"{op} {row.shape_id}: {row.ratio:.4f}x of {times}, limit {row.limit:.4f}"


def comparison(found: Sequence[Ratio]) -> str:
    """The table of `gate baseline diff` and its counts."""
    lines = [
        (
            one.shape_id,
            one.op_type or "",
            one.provider,
            _us(one.first_us),
            _us(one.second_us),
            one.why if one.ratio is None else f"{one.ratio:.4f}",
        )
        for one in found
    ]
    compared = [one.ratio for one in found if one.ratio is not None]
    slower, faster = sum(ratio > 1 for ratio in compared), sum(ratio < 1 for ratio in compared)
    counts = f"{counted(len(found), 'row')}: {len(compared)} compared, {slower} slower, {faster} faster in the second"
    table = _table(("shape_id", "op", "provider", "first us", "second us", "second / first"), lines)
    return f"{table}\n{counts}" if found else "nothing to compare"


def _us(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _table(titles: Iterable[str], lines: Iterable[Sequence[str]]) -> str:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=True)
    for line in lines:
        # Texts come from result rows, where brackets would be taken for markup.
        table.add_row(*(escape(text) for text in line))
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
