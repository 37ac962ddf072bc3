"""Where baselines lie: the file in force, its provenance beside it, what it replaced under history/, and the lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import click
import msgspec

from gate import store
from gate.commands import judge_files, judged, ledger_files
from gate.commands.telling import say
from gate.ledgers.baselines import Offer
from gate.ledgers.freeze import sha256
from gate.model.baseline import Provenance
from gate.model.decision import Decision
from gate.model.matrix import Matrix
from gate.model.outcome import Outcome, Results
from gate.model.problem import Exit, GateError, Problem, UnusableInput
from gate.model.shape import Shape
from gate.model.text import counted
from gate.replay.run_folder import results_of

BASELINES, HISTORY, RELEASE, PROVENANCE_FILE = "baselines", "history", "release", "provenance.jsonl"
FILES = {"times": store.RESULTS_FILE, "machine_code": store.CODEGEN_FILE}
RESTORE = "restore the folder from version control"


class Refused(GateError):
    """What is offered may not become the baseline: nothing was written."""

    exit_code: ClassVar[Exit] = Exit.BLOCK


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One frozen folder: its shapes in order and its matrix."""

    folder: Path
    shapes: tuple[Shape, ...]
    matrix: Matrix


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One folder of baselines: of `op`, for one architecture or GPU, with the lines of its provenance."""

    op: Path
    folder: Path
    lines: tuple[Provenance, ...]

    def last(self, contents: str) -> Provenance | None:
        """What the file of these contents came from; None where nothing says so."""
        return next((line for line in reversed(self.lines) if line.contents == contents), None)

    def stored(self, contents: str) -> bytes | None:
        """The bytes of the file in force; None where there is none."""
        path = self.folder / FILES[contents]
        return store.read_bytes(path) if path.is_file() else None


def read_ops(ledgers: Path) -> dict[str, Op]:
    """The frozen folders by op. Raises UnusableInput for a ledger with a refused row, or none at all."""
    found = {}
    for folder in ledger_files.op_folders(ledgers):
        ledger = store.read_ledger(folder / store.LEDGER_FILE)
        if ledger.problems:
            raise UnusableInput(*ledger.problems)
        matrix = store.read_matrix(folder / store.MATRIX_FILE)
        found[matrix.op_type] = Op(folder=folder, shapes=ledger.shapes, matrix=matrix)
    return found


def held_ops(ledgers: Path) -> dict[str, Op]:
    """As `read_ops`, with the folders held until the command ends. Raises UnusableInput if another process has one."""
    ops = read_ops(ledgers)
    click.get_current_context().with_resource(store.ledgers_lock(op.folder for op in ops.values()))
    return ops


def unchanged(folder: Path) -> None:
    """Raises UnusableInput where the folder is not as it was frozen: a new lock would hide that."""
    problems = ledger_files.lock_problems(folder)
    if problems:
        raise UnusableInput(*problems)


def place(op: Path, name: str) -> Place:
    """The baselines of one op and machine, checked. Raises UnusableInput where file and provenance disagree."""
    return _place(op, op / BASELINES / name)


def releases(found: Place) -> list[Place]:
    """The pinned releases beside a baseline, oldest pin first. Raises UnusableInput as `place`."""
    folders = sorted(path for path in (found.folder / RELEASE).glob("*") if path.is_dir())
    pinned = [_place(found.op, folder) for folder in folders]
    return sorted(pinned, key=lambda one: (str(one.lines[-1].pinned) if one.lines else "", one.folder.name))


def _place(op: Path, folder: Path) -> Place:
    path = folder / PROVENANCE_FILE
    rows, problems = store.decode_lines(path, Provenance) if path.is_file() else ([], [])
    if problems:
        raise UnusableInput(*problems)
    found = Place(op=op, folder=folder, lines=tuple(line for _, line in rows))
    fault = _disagrees(found)
    if fault is not None:
        raise UnusableInput(fault)
    return found


def old_rows(found: Place) -> tuple[Outcome, ...]:
    """The rows in force; none where nothing is stored yet."""
    path = found.folder / store.RESULTS_FILE
    return store.read_results(path).outcomes if path.is_file() else ()


def _disagrees(found: Place) -> Problem | None:
    """Times must be those of the last line. Machine code may be newer: `gate codegen record` writes it too."""
    data, last = found.stored("times"), found.last("times")
    file = str(found.folder / store.RESULTS_FILE)
    if data is not None and last is None:
        return Problem(what=f"no line of {PROVENANCE_FILE} says where it comes from", file=file, fix=RESTORE)
    if last is not None and (data is None or sha256(data) != last.sha256):
        return Problem(what=f"not what the last line of {PROVENANCE_FILE} says", file=file, fix=RESTORE)
    return None


def places(op: Path) -> list[Place]:
    """Every folder of baselines of one op, in name order. Raises UnusableInput as `place`."""
    return [place(op, folder.name) for folder in sorted((op / BASELINES).glob("*")) if folder.is_dir()]


def put(found: Place, line: Provenance, data: bytes) -> None:
    """Makes `data` the baseline and locks the folder. Nothing that was there is lost or rewritten.

    Broken off half-way, the folder no longer agrees with its lock, which every later verb says.
    """
    name = FILES[line.contents]
    old = found.stored(line.contents)
    if old is not None:
        store.write_bytes(found.folder / HISTORY / str(len(found.lines)) / name, old)
    provenance = found.folder / PROVENANCE_FILE
    before = store.read_bytes(provenance) if provenance.is_file() else b""
    store.write_bytes(provenance, before + store.encode(line) + b"\n")
    store.write_bytes(found.folder / name, data)
    ledger_files.write_frozen(found.op, shapes=None, matrix=None)


def store_one(found: Place, line: Provenance, data: bytes) -> None:
    """Writes one baseline and says so; bytes that are in force already are left alone."""
    last = found.last(line.contents)
    if last is not None and last.sha256 == line.sha256 and found.stored(line.contents) == data:
        say(f"{found.folder}: already the baseline, of {last.commit[:12]}")
        return
    put(found, line, data)
    lacks = f", {counted(line.missing, 'shape')} not measured" if line.missing else ""
    rows = counted(line.rows, "row") + lacks
    say(f"{found.folder}: {counted(line.timed, 'time')} of {line.candidate}, {rows}, of {line.commit[:12]}")
    if line.replaced is not None:
        old = line.replaced
        said = f"geomean {old.geomean:.4f}x, worst {old.worst:.4f}x on {old.worst_shape_id}"
        say(f"{found.folder}: {old.slower} of {counted(old.n, 'row')} slower than those they replace, {said}")


def pin(found: Place, line: Provenance, data: bytes) -> None:
    """Writes the file of a release beside the baseline and locks the op's folder; a release is written once."""
    store.write_bytes(found.folder / PROVENANCE_FILE, store.encode(line) + b"\n")
    store.write_bytes(found.folder / FILES[line.contents], data)
    ledger_files.write_frozen(found.op, shapes=None, matrix=None)


def read_decision(folder: Path) -> tuple[Decision, str]:
    """The decision in `folder` and the SHA-256 of its file. Raises UnusableInput if there is none."""
    path = folder / judged.DECISION_FILE
    if not path.is_file():
        raise UnusableInput(Problem(what="no decision", file=str(path), fix="judge the results first"))
    data = store.read_bytes(path)
    return store.decode_record(data, Decision, file=path, what="a decision", fix="judge again"), sha256(data)


def read_results(source: Path) -> Results:
    """The rows of head in `source`, or of `source` itself. Raises UnusableInput for none, or a refused row."""
    head = source / "head"
    folder = head if head.is_dir() else source
    files = judge_files.found(folder, store.RESULTS_FILE)
    results = judge_files.merged(store.read_results(file) for file in files)
    if results.problems:
        raise UnusableInput(*results.problems)
    if not results.outcomes:
        what = f"no rows of {store.RESULTS_FILE}"
        fix = results_of(folder, store.RESULTS_FILE) or "measure first"
        raise UnusableInput(Problem(what=what, file=str(folder), fix=fix))
    return results


def offers(
    results: Results, ops: dict[str, Op], *, commit: str, candidates: Mapping[str, str] | None = None
) -> list[Offer]:
    """What the rows offer, op by op, rows in the ledger's order. `candidates` by op are others than the matrix's.

    Raises UnusableInput for rows of no known op.
    """
    owner = {shape.shape_id: name for name, op in ops.items() for shape in op.shapes}
    rows: dict[str, list[Outcome]] = {}
    for row in results.outcomes:
        rows.setdefault(owner.get(row.shape_id) or row.op_type or "", []).append(row)
    strange = [row for name, of_op in rows.items() if name not in ops for row in of_op]
    if strange:
        what = f"{counted(len(strange), 'row is', 'rows are')} of no frozen ledger, such as {strange[0].shape_id}"
        raise UnusableInput(Problem(what=what, file=store.RESULTS_FILE, fix="measure the frozen ledgers"))
    return [
        Offer(
            op_type=name,
            shapes=ops[name].shapes,
            candidate=(candidates or {}).get(name, ops[name].matrix.candidate_provider),
            rows=_in_order(of_op, ops[name].shapes),
            commit=commit,
        )
        for name, of_op in sorted(rows.items())
    ]


def nothing_of(op: Op) -> Offer:
    """What a run without a row of the op offers."""
    candidate = op.matrix.candidate_provider
    return Offer(op_type=op.matrix.op_type, shapes=op.shapes, candidate=candidate, rows=(), commit="")


def _in_order(rows: Iterable[Outcome], shapes: Iterable[Shape]) -> tuple[Outcome, ...]:
    order = {shape.shape_id: number for number, shape in enumerate(shapes)}
    return tuple(sorted(rows, key=lambda row: order.get(row.shape_id, len(order))))


def encoded(rows: Iterable[msgspec.Struct]) -> bytes:
    """Rows as the bytes of their JSONL file."""
    return b"".join(store.encode(row) + b"\n" for row in rows)
