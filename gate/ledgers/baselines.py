"""What a stored baseline is: the run it came from, line by line, and how it stands to the one it replaced."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import msgspec

from gate.ledgers.ratios import ratios, usable
from gate.model.baseline import Provenance, Replaced
from gate.model.codegen import CodegenRecord
from gate.model.decision import Decision
from gate.model.outcome import VERSION_FIELDS, Outcome
from gate.model.shape import Shape
from gate.model.text import counted


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a run offers for one op: every row of it, the op's frozen shapes, and the commit it is said to be of."""

    op_type: str
    shapes: tuple[Shape, ...]
    candidate: str
    rows: tuple[Outcome, ...]
    commit: str

    @property
    def own(self) -> tuple[Outcome, ...]:
        """The candidate's rows."""
        return tuple(row for row in self.rows if row.provider == self.candidate)

    @property
    def timed(self) -> tuple[Outcome, ...]:
        """The candidate's rows that hold a time to rely on."""
        return tuple(row for row in self.own if usable(row))

    def said(self) -> Offer:
        """The offer without the rows of providers that the run asked on no shape: they say nothing of this machine."""
        asked = {row.provider for row in self.rows if row.benchmark_status not in ("skipped", "not_configured")}
        rows = tuple(row for row in self.rows if row.provider in {self.candidate, *asked})
        return msgspec.structs.replace(self, rows=rows)

    def in_one_state(self) -> tuple[Offer, str]:
        """The offer without the shapes that the candidate was measured on in another cache state than on most, and what
        was left out, in words; nothing where all were measured in one."""
        states = Counter(row.cache_state or "unknown" for row in self.timed)
        most = max(states, key=lambda state: (states[state], state), default="")
        other = {row.shape_id for row in self.timed if (row.cache_state or "unknown") != most}
        if not other:
            return self, ""
        rest = ", ".join(sorted(states.keys() - {most}))
        rows = tuple(row for row in self.rows if row.shape_id not in other)
        told = f"{self.op_type}: {counted(len(other), 'shape')} left out, measured {rest}, not {most} as the others"
        return msgspec.structs.replace(self, rows=rows), told

    @property
    def unsupported(self) -> frozenset[str]:
        """The shapes that the candidate declares it has no kernel for."""
        timed = {row.shape_id for row in self.timed}
        return frozenset(row.shape_id for row in self.own if row.benchmark_status == "unsupported") - timed


class CodeOffer(msgspec.Struct, frozen=True, kw_only=True):
    """The machine code that a run offers for one op: its records, and the compile key of each shape that has one."""

    op_type: str
    shapes: tuple[Shape, ...]
    keys: dict[str, str]
    candidate: str
    records: tuple[CodegenRecord, ...]
    commit: str


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """By what right, when and from which run a baseline is written; no decision for the first of a machine."""

    day: date
    run: str
    decision: Decision | None = None
    decision_sha256: str | None = None
    policy_sha256: str | None = None


def of_times(offer: Offer, right: Right, *, sha256: str, old: Sequence[Outcome] = ()) -> Provenance:
    """The provenance of times that have no fault; `sha256` is that of their file, `old` the rows they replace."""
    row = offer.timed[0]
    return Provenance(
        contents="times",
        op_type=offer.op_type,
        commit=offer.commit,
        run=right.run or ", ".join(sorted({row.run_id for row in offer.timed})),
        arch=str(row.arch),
        gpu=row.gpu,
        candidate=offer.candidate,
        stack=stack(offer.timed),
        timing_method=str(row.timing_method),
        cache_state=row.cache_state,
        sha256=sha256,
        rows=len(offer.rows),
        timed=len(offer.timed),
        unsupported=len(offer.unsupported),
        missing=len(offer.shapes) - len(offer.timed) - len(offer.unsupported),
        replaced=against_replaced(offer, old),
        **_of_right(right, offer.op_type),
    )


def of_code(offer: CodeOffer, right: Right, *, sha256: str) -> Provenance:
    """The provenance of machine code that has no fault; `sha256` is that of its file."""
    tools = offer.records[0].toolchain
    said = {"flydsl_version": tools.flydsl_version, "llvm_version": tools.llvm, "kernels_sha": tools.kernels_sha}
    return Provenance(
        contents="machine_code",
        op_type=offer.op_type,
        commit=offer.commit,
        run=right.run or f"codegen-{tools.flydsl_version}-{tools.kernels_sha}",
        arch=tools.arch,
        gpu=None,
        candidate=offer.candidate,
        stack=said,
        timing_method="codegen",
        cache_state=None,
        sha256=sha256,
        rows=len(offer.records),
        timed=sum(record.status == "ok" for record in offer.records),
        unsupported=len(offer.shapes) - len(offer.keys),
        **_of_right(right, offer.op_type),
    )


def _of_right(right: Right, op_type: str) -> dict[str, Any]:
    rows = [] if right.decision is None else [row for row in right.decision.rows if row.op_type == op_type]
    return {
        "how": "recorded" if right.decision is None else "promoted",
        "date": right.day,
        "decision_sha256": right.decision_sha256,
        "policy_sha256": right.policy_sha256,
        "verdicts": dict(sorted(Counter(row.verdict for row in rows).items())),
        "waived": tuple(row.shape_id for row in rows if row.verdict == "waived"),
    }


def against_replaced(offer: Offer, old: Sequence[Outcome]) -> Replaced | None:
    """How the candidate's times stand to those they replace; None where no row can be compared."""
    own = [row for row in old if row.provider == offer.candidate]
    pairs = [(one.ratio, one.shape_id) for one in ratios(own, offer.own) if one.ratio is not None]
    if not pairs:
        return None
    worst, shape_id = max(pairs)
    return Replaced(
        n=len(pairs),
        slower=sum(ratio > 1 for ratio, _ in pairs),
        geomean=round(math.exp(math.fsum(math.log(ratio) for ratio, _ in pairs) / len(pairs)), 6),
        worst=round(worst, 6),
        worst_shape_id=shape_id,
    )


def stack(rows: Iterable[Any]) -> dict[str, str]:
    """What the rows say of their software; several values of one field are joined."""
    values = {name: {getattr(row, name) for row in rows} - {None} for name in VERSION_FIELDS}
    return {name: ", ".join(sorted(said)) for name, said in values.items() if said}
