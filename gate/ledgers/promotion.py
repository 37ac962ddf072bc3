"""Knows which run may become the baseline of an op: every rule as a function from values to refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gate.ledgers.baselines import CodeOffer, Offer
from gate.ledgers.ratios import usable
from gate.model.baseline import Provenance
from gate.model.codegen import CodegenRecord
from gate.model.decision import Decision, RowFinding
from gate.model.outcome import Outcome
from gate.model.problem import Problem
from gate.model.text import counted

FULL_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# A commit with a mark behind it, as `-dirty`, `-changed` or `+local`.
DIRTY = re.compile(r"[0-9a-f]{7,64}[-+].*")
# Verdicts of a row that keep a passing run from becoming the baseline, and what is said of it.
BARRED = {
    "regressed": ("row got slower", "rows got slower"),
    "newly_failed": ("row fails that worked before", "rows fail that worked before"),
    "newly_incorrect": (
        "row gives wrong results that was right before",
        "rows give wrong results that were right before",
    ),
    "missing": ("row has no time that had one before", "rows have no time that had one before"),
    "not_comparable": ("row could not be compared", "rows could not be compared"),
}
WAIVED = ("row got slower and is waived", "rows got slower and are waived")
NOT_MEASURED = ("row was not measured", "rows were not measured")
# States of a shape that say nothing against it: nobody measured it.
UNMEASURED = frozenset({"have no row", "are skipped"})
# decision.json gives times with so many significant digits.
DIGITS = 6


def faults(offer: Offer, *, accept_partial: bool = False) -> list[Problem]:
    """Why the rows of a run cannot be a baseline whatever a decision says: partial, mixed, or of a dirty tree.

    With `accept_partial` shapes that were not measured are no fault; shapes that failed still are.
    """
    coverage = _coverage_faults(offer, accepted=UNMEASURED if accept_partial else frozenset())
    return [*commit_faults(offer), *coverage, *_machine_faults(offer), *_shared_faults(offer)]


def _shared_faults(offer: Offer) -> list[Problem]:
    rows = sum(bool(row.control) for row in offer.timed)
    if not rows:
        return []
    what = f"{counted(rows, 'row')} of {offer.candidate} measured as a baseline, in an arm that head and base share"
    return [Problem(what=what, file=offer.op_type, fix=f"measure with --candidate {offer.candidate}")]


def commit_fault(commit: str, file: str) -> Problem | None:
    """What is wrong with the name of a commit: a dirty tree, or not the full hash."""
    if FULL_COMMIT.fullmatch(commit):
        return None
    if DIRTY.fullmatch(commit):
        what, fix = f"the tree was dirty: commit {commit}", "commit the changes and measure again"
    else:
        what, fix = f"{commit!r} is not the full hash of a commit", "give all 40 digits"
    return Problem(what=what, file=file, fix=fix)


def commit_faults(offer: Offer) -> list[Problem]:
    """The candidate's rows must all be of the commit that is promoted, from a clean tree."""
    fault = commit_fault(offer.commit, offer.op_type)
    if fault is not None:
        return [fault]
    found = []
    for said in sorted({row.candidate_commit or "" for row in offer.timed}):
        if said == offer.commit or (re.fullmatch(r"[0-9a-f]{7,64}", said) and offer.commit.startswith(said)):
            continue
        dirty = DIRTY.fullmatch(said)
        what = f"the tree was dirty: rows are of {said}" if dirty else f"rows are of {said or 'no named commit'}"
        what += "" if dirty else f", not of {offer.commit}"
        found.append(Problem(what=what, file=offer.op_type, fix="measure a clean checkout of the commit and name it"))
    return found


def _coverage_faults(offer: Offer, *, accepted: frozenset[str]) -> list[Problem]:
    """Every shape of the frozen ledger has one usable time, or the candidate declares that it has no kernel.

    Shapes in an `accepted` state are passed over.
    """
    of_shape: dict[str, list[Outcome]] = {}
    for row in offer.own:
        of_shape.setdefault(row.shape_id, []).append(row)
    lacking: dict[str, list[str]] = {}
    for shape in offer.shapes:
        state = _state(of_shape.get(shape.shape_id, []))
        if state not in ("ok", "unsupported", *accepted):
            lacking.setdefault(state, []).append(shape.shape_id)
    found = [
        _fault(offer, f"partial: {len(ids)} of {counted(len(offer.shapes), 'shape')} {state}, such as {ids[0]}")
        for state, ids in sorted(lacking.items())
    ]
    strange = sorted({row.shape_id for row in offer.rows} - {shape.shape_id for shape in offer.shapes})
    if strange:
        shapes = counted(len(strange), "shape is", "shapes are")
        found.append(_fault(offer, f"{shapes} not in the frozen ledger, such as {strange[0]}"))
    return found if found or offer.timed else [_fault(offer, "no shape has a time")]


def _fault(offer: Offer, what: str) -> Problem:
    return Problem(what=what, file=offer.op_type, fix="measure the whole frozen ledger of the op")


def _state(rows: Sequence[Outcome]) -> str:
    if not rows:
        return "have no row"
    good = [row for row in rows if row.benchmark_status == "ok"]
    if len(good) > 1:
        return "are measured twice"
    if good:
        return "ok" if usable(good[0]) else "have no time of a checked output"
    status = rows[0].benchmark_status
    return status if status == "unsupported" else f"are {status}"


def _machine_faults(offer: Offer) -> list[Problem]:
    found = []
    several: list[tuple[str, Iterable[str]]] = [
        ("GPU", {row.gpu or "unknown" for row in offer.rows if usable(row)}),
        ("architecture", {row.arch or "unknown" for row in offer.rows if usable(row)}),
        ("timing method", {str(row.timing_method) for row in offer.timed}),
        ("cache state", {row.cache_state or "unknown" for row in offer.timed}),
    ]
    for name, values in several:
        listed = sorted(values)
        if len(listed) > 1:
            what = f"more than one {name}: {', '.join(listed)}"
            found.append(Problem(what=what, file=offer.op_type, fix="measure in one way on one machine"))
        elif listed == ["unknown"] and name in ("GPU", "architecture"):
            found.append(Problem(what=f"the rows do not say their {name}", file=offer.op_type))
    return found


def verdict_faults(decision: Decision, *, op_type: str, accept_waived: bool) -> list[Problem]:
    """Rows of the op that no baseline may hold: slower, broken or unmeasured ones, one line for each kind."""
    barred = dict(BARRED) if accept_waived else {**BARRED, "waived": WAIVED}
    found: dict[str, list[RowFinding]] = {}
    for row in decision.rows:
        undeclared = row.verdict == "not_run" and "unsupported" not in row.reasons
        if row.op_type == op_type and (row.verdict in barred or undeclared):
            found.setdefault(row.verdict, []).append(row)
    return [
        Problem(
            what=f"{verdict}: {counted(len(rows), *barred.get(verdict, NOT_MEASURED))}, such as {rows[0].shape_id}",
            file=op_type,
            fix="--accept-waived takes them over on purpose" if verdict == "waived" else "the stored baseline stays",
        )
        for verdict, rows in sorted(found.items())
    ]


def pass_faults(decision: Decision) -> list[Problem]:
    """Only a run that passed as a whole may be promoted."""
    if "no_kernel_changed" in decision.reasons:
        return [Problem(what="no kernel changed: the run measured nothing", file="decision")]
    found = []
    if decision.gate != "pass":
        word = "blocked" if decision.gate == "block" else "came to no verdict"
        what = f"the run {word}: {', '.join(decision.reasons)}"
        found.append(Problem(what=what, file="decision", fix="only a run that passed becomes the baseline"))
    return found


def foreign(decision: Decision, offer: Offer) -> Problem | None:
    """That the decision judged other results than these: it must hold each shape, and the times of these rows."""
    times = {row.shape_id: rounded(row.median_us) for row in offer.timed}
    return foreign_to(decision, offer, times=times, said=lambda row: row.head_us)


def foreign_to(
    decision: Decision, offer: Offer | CodeOffer, *, times: Mapping[str, Any], said: Callable[[RowFinding], Any]
) -> Problem | None:
    """As `foreign`, for any value that both the results (`times`, by shape_id) and the decision hold of a shape."""
    judged = {row.shape_id: row for row in decision.rows if row.op_type == offer.op_type}
    for shape in offer.shapes:
        row = judged.get(shape.shape_id)
        if row is None or row.provider != offer.candidate:
            what = f"the decision does not judge {offer.candidate} on {shape.shape_id}"
            return Problem(what=what, file=offer.op_type, fix="judge these results over this ledger")
        # A row that the judge could not use (measured twice, another unit) is refused by its verdict instead.
        unusable = row.verdict == "not_comparable" and said(row) is None
        if not unusable and said(row) != times.get(shape.shape_id):
            what = f"the decision is of other results: {shape.shape_id} has {said(row)}"
            what += f" there and {times.get(shape.shape_id)} here"
            return Problem(what=what, file=offer.op_type, fix="give the decision that judged these results")
    return None


def rounded(value: float | None) -> float | None:
    """A time as decision.json writes it."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def stored_faults(last: Provenance, offer: Offer, *, folder: str) -> list[Problem]:
    """What sets the rows apart from the baseline that lies in the folder: another GPU, method, cache or candidate."""
    if not offer.timed:
        return []
    row = offer.timed[0]
    pairs = [
        ("GPU", last.gpu, row.gpu, "give the other machine a folder of its own with --name"),
        ("architecture", last.arch, row.arch, "give the other machine a folder of its own with --name"),
        ("timing method", last.timing_method, row.timing_method, "measure with the method of the baseline"),
        ("cache state", last.cache_state, row.cache_state, "measure in the cache state of the baseline"),
        ("candidate", last.candidate, offer.candidate, "judge the candidate of the baseline"),
    ]
    return [
        Problem(what=f"other {name} than the stored baseline: {was} there, {now} here", file=folder, fix=fix)
        for name, was, now, fix in pairs
        if was != now
    ]


def code_faults(offer: CodeOffer, stored: Mapping[str, CodegenRecord]) -> list[Problem]:
    """Why the records of a run cannot be the stored machine code: partial, failing, mixed, or of another commit."""
    found = [] if (fault := commit_fault(offer.commit, offer.op_type)) is None else [fault]
    records = {record.compile_key: record for record in offer.records}
    absent = sorted({key for key in offer.keys.values() if key not in records} | (stored.keys() - records.keys()))
    if absent:
        keys = counted(len(absent), "compile key has", "compile keys have")
        found.append(_code_fault(offer, f"partial: {keys} no record, such as {absent[0]}"))
    for record in sorted(offer.records, key=lambda record: record.compile_key):
        if record.status not in ("ok", "unsupported"):
            found.append(_code_fault(offer, f"{record.compile_key} did not compile: {record.status}"))
    return [*found, *_toolchain_faults(offer)]


def _toolchain_faults(offer: CodeOffer) -> list[Problem]:
    found = []
    if len({record.toolchain for record in offer.records}) > 1:
        found.append(_code_fault(offer, "more than one toolchain compiled the records"))
    for said in sorted({record.toolchain.kernels_commit or offer.commit for record in offer.records} - {offer.commit}):
        what = f"the tree was dirty: records are of {said}" if DIRTY.fullmatch(said) else f"records are of {said}"
        found.append(_code_fault(offer, what))
    return found


def _code_fault(offer: CodeOffer, what: str) -> Problem:
    return Problem(what=what, file=offer.op_type, fix="record every case of the ledger at the commit")
