"""What `gate replay` and `gate correctness` are asked to measure: ledgers and matrices read, shapes and arms chosen."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gate import store
from gate.commands import unheeded
from gate.model.matrix import Matrix, MatrixProvider
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.replay.blocks import BASE, Arm
from gate.replay.job import Job, Target, side_of
from gate.replay.op import Case


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the ledgers is measured; an empty tuple means all."""

    providers: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    limit: int | None = None


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The shapes in ledger order, each op's matrix, and the SHA-256 of every file read."""

    shapes: tuple[Shape, ...]
    matrices: dict[str, Matrix]
    hashes: dict[str, str]


def read_inputs(
    *,
    op: str,
    ledgers: Path,
    ledger: Path | None,
    matrix: Path | None,
    candidate: str | None,
    entrypoints: Sequence[str] = (),
) -> Inputs:
    """Reads one op's files, or every op's with `op` = all. Raises UnusableInput or WrongUsage."""
    if (ledger is None) != (matrix is None):
        raise WrongUsage(Problem(what="--ledger and --matrix belong together", file="", fix="give both or --ledgers"))
    if ledger is not None and matrix is not None:
        unheeded.refuse(("ledgers",), beside="--ledger and --matrix")
        pairs = [(ledger, matrix)]
    else:
        folders = [path.parent for path in sorted(ledgers.glob(f"*/{store.LEDGER_FILE}"))]
        pairs = [(f / store.LEDGER_FILE, f / store.MATRIX_FILE) for f in folders if op in ("all", f.name)]
    found = [_read_pair(*pair) for pair in pairs]
    chosen = [(shapes, entry) for shapes, entry in found if op in ("all", entry.op_type)]
    if not chosen:
        raise UnusableInput(
            Problem(what=f"no ledger of op {op}", file=str(ledger or ledgers), fix="name an op that has a folder there")
        )
    inputs = Inputs(
        shapes=tuple(shape for shapes, _ in chosen for shape in shapes),
        matrices={entry.op_type: entry for _, entry in chosen},
        hashes={path.parent.name + "/" + path.name: _sha256(path) for pair in pairs for path in pair},
    )
    lost = next((shape for shape in inputs.shapes if shape.op_type not in inputs.matrices), None)
    if lost is not None:
        what = f"shape {lost.shape_id} is of op {lost.op_type}, which no matrix is for"
        fix = "give each op its own ledger and matrix"
        raise UnusableInput(Problem(what=what, file=str(ledger or ledgers), fix=fix))
    return with_candidate(with_entrypoints(inputs, entrypoints), candidate)


def with_entrypoints(inputs: Inputs, entries: Sequence[str]) -> Inputs:
    """The inputs with other kernels behind some providers, by PROVIDER=MODULE:ATTR. Raises WrongUsage."""
    matrices = dict(inputs.matrices)
    for text in entries:
        name, separator, entrypoint = text.partition("=")
        strangers = [op for op, matrix in matrices.items() if name not in matrix.providers]
        if not separator or ":" not in entrypoint or strangers:
            known = sorted({provider for matrix in matrices.values() for provider in matrix.providers})
            what = f"--entrypoint {text} is not PROVIDER=MODULE:ATTR with a provider of the matrix"
            raise WrongUsage(Problem(what=what, file="", fix=f"choose among {', '.join(known)}"))
        for op, matrix in matrices.items():
            entry = msgspec.structs.replace(
                matrix.providers[name], enabled=True, skip_reason=None, entrypoint=entrypoint.replace("{op}", op)
            )
            matrices[op] = msgspec.structs.replace(matrix, providers={**matrix.providers, name: entry})
    return msgspec.structs.replace(inputs, matrices=matrices)


def _sha256(path: Path) -> str:
    return hashlib.sha256(store.read_bytes(path)).hexdigest()


def _read_pair(ledger: Path, matrix: Path) -> tuple[tuple[Shape, ...], Matrix]:
    shapes = store.read_ledger(ledger)
    if shapes.problems:
        raise UnusableInput(*shapes.problems)
    return shapes.shapes, store.read_matrix(matrix)


def with_candidate(inputs: Inputs, candidate: str | None) -> Inputs:
    """The inputs with another candidate. Raises WrongUsage where it is not enabled."""
    if candidate is None:
        return inputs
    for entry in inputs.matrices.values():
        if candidate not in entry.enabled:
            what = f"--candidate {candidate} is not an enabled provider of {entry.op_type}"
            raise WrongUsage(Problem(what=what, file="", fix=f"choose among {', '.join(entry.enabled)}"))
    matrices = {op: msgspec.structs.replace(one, candidate_provider=candidate) for op, one in inputs.matrices.items()}
    return msgspec.structs.replace(inputs, matrices=matrices)


def choose(
    inputs: Inputs, selection: Selection, *, both: bool, op: str | None = None
) -> tuple[list[Job], dict[tuple[str, str], str]]:
    """The jobs in ledger order, and why each left-out (shape_id, provider) is left out."""
    unknown = set(selection.shapes) - {shape.shape_id for shape in inputs.shapes}
    if unknown:
        raise WrongUsage(Problem(what=f"--shape {min(unknown)} is in no ledger", file="", fix="see 'gate ledger show'"))
    known = {name for matrix in inputs.matrices.values() for name in matrix.providers}
    strangers = set(selection.providers) - known
    if strangers:
        what = f"--providers {min(strangers)} is in no matrix"
        raise WrongUsage(Problem(what=what, file="", fix=f"choose among {', '.join(sorted(known))}"))
    jobs: list[Job] = []
    left_out: dict[tuple[str, str], str] = {}
    for shape in inputs.shapes:
        matrix = inputs.matrices[shape.op_type]
        why = _shape_left_out(shape, selection, measured=len(jobs))
        targets: list[Target] = []
        for name, entry in matrix.providers.items():
            reason = why or _provider_left_out(name, matrix, selection)
            if reason is not None:
                left_out[shape.shape_id, name] = reason
            elif entry.enabled:
                targets += _targets(name, entry, matrix=matrix, both=both)
        if targets:
            jobs.append(Job(case=case_of(shape), targets=tuple(targets), op=op))
    return jobs, left_out


def _shape_left_out(shape: Shape, selection: Selection, *, measured: int) -> str | None:
    if selection.stages and shape.stage not in selection.stages:
        return f"not selected: stage {shape.stage} is not in --stages"
    if selection.shapes and shape.shape_id not in selection.shapes:
        return "not selected: not named by --shape"
    if selection.limit is not None and measured >= selection.limit:
        return f"not selected: beyond --limit {selection.limit}"
    return None


def _provider_left_out(name: str, matrix: Matrix, selection: Selection) -> str | None:
    if not selection.providers or name in selection.providers or name == matrix.candidate_provider:
        return None
    return "not selected: not named by --providers"


def _targets(name: str, entry: MatrixProvider, *, matrix: Matrix, both: bool) -> list[Target]:
    sides = side_of(provider=name, candidate=matrix.candidate_provider)
    return [Target(arm=Arm(side, name), entrypoint=entry.entrypoint) for side in sides if both or side != BASE]


def case_of(shape: Shape) -> Case:
    """The part of a shape that a worker needs."""
    return Case(
        shape_id=shape.shape_id,
        op_type=shape.op_type,
        dtype=shape.dtype,
        args=dict(shape.args),
        layout=dict(shape.layout),
    )


def split_list(values: Sequence[str]) -> tuple[str, ...]:
    """Options that may be repeated or joined by commas."""
    return tuple(item for value in values for item in value.split(",") if item)


def by_op(matrices: Mapping[str, Matrix], shapes: Sequence[Shape]) -> dict[str, list[Shape]]:
    """The shapes of each op, in order."""
    return {op: [shape for shape in shapes if shape.op_type == op] for op in matrices}
