"""What a timed run is asked to measure: ledgers held against their locks, narrowed, and turned into jobs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.commands import judge_files
from gate.commands.replay import named_shapes, parse_arms
from gate.commands.replay_inputs import Inputs, Selection, choose, split_list
from gate.commands.run import Limits, narrowed, read_frozen, scope
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.replay.arms import ArmSpec
from gate.replay.job import Job


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The shapes of a run in the ledgers' order, their jobs, and why a (shape_id, provider) has none.

    `scope` says in words what of the frozen ledgers is left out; `both` whether base is measured too.
    """

    inputs: Inputs
    jobs: list[Job]
    left_out: dict[tuple[str, str], str]
    selection: Selection
    arms: dict[str, ArmSpec]
    both: bool
    scope: str

    @property
    def ledger(self) -> Ledger:
        """The shapes that are judged."""
        return Ledger(shapes=self.inputs.shapes)


def read_work(root: Path, limits: Limits, timed: Mapping[str, Any], *, base: str | None) -> Work:
    """Everything that is measured. Raises UnusableInput for a ledger that is not as its lock says, WrongUsage."""
    frozen = read_frozen(root)
    if frozen.problems:
        raise UnusableInput(*frozen.problems)
    matrices = candidates(judge_files.read_matrices(root), timed["candidate"], named=limits.ops)
    ledger = narrowed(frozen, limits, sorted(matrices))
    unlisted = sorted({shape.op_type for shape in ledger.shapes} - matrices.keys())
    if unlisted:
        raise UnusableInput(Problem(what=f"no {store.MATRIX_FILE} for {', '.join(unlisted)}", file=str(root)))
    shapes = selected(ledger.shapes, timed)
    ops = {shape.op_type for shape in shapes}
    inputs = Inputs(
        shapes=shapes,
        matrices={op: matrix for op, matrix in matrices.items() if op in ops},
        hashes=file_hashes(root),
    )
    selection = Selection(providers=split_list(timed["providers"]), shapes=tuple(shape.shape_id for shape in shapes))
    jobs, left_out = choose(inputs, selection, both=base is not None, op=timed["op_from"])
    return Work(
        inputs=inputs,
        jobs=jobs,
        left_out=left_out,
        selection=selection,
        arms=parse_arms({**timed, "base": base}),
        both=base is not None,
        scope=scope(frozen, Ledger(shapes=shapes)),
    )


def candidates(matrices: Mapping[str, Matrix], candidate: str | None, *, named: Sequence[str]) -> dict[str, Matrix]:
    """The matrices with `candidate` in the candidate's place, of the ops that have it enabled.

    Raises WrongUsage where none has it, or an op that was `named` has not.
    """
    if candidate is None:
        return dict(matrices)
    serving = {
        op: msgspec.structs.replace(matrix, candidate_provider=candidate)
        for op, matrix in matrices.items()
        if candidate in matrix.providers and matrix.providers[candidate].enabled
    }
    without = [op for op in named if op in matrices and op not in serving]
    if without or not serving:
        what = f"--candidate {candidate} is not an enabled provider of {without[0] if without else 'any op'}"
        raise WrongUsage(Problem(what=what, file="", fix="see baseline_matrix.yaml of the op"))
    return serving


def selected(shapes: Sequence[Shape], timed: Mapping[str, Any]) -> tuple[Shape, ...]:
    """The shapes of --stages, --shapes-from and --limit, in order. Raises WrongUsage when none is left."""
    stages = split_list(timed["stages"])
    ids = set(named_shapes({"shapes": (), "shapes_from": timed["shapes_from"]}))
    unknown = ids - {shape.shape_id for shape in shapes}
    if unknown:
        raise WrongUsage(Problem(what=f"{min(unknown)} of --shapes-from is in no ledger of these ops", file=""))
    kept = [shape for shape in shapes if (not stages or shape.stage in stages) and (not ids or shape.shape_id in ids)][
        : timed["limit"]
    ]
    if not kept:
        raise WrongUsage(Problem(what="no shape is of these stages", file="", fix="see 'gate ledger show'"))
    return tuple(kept)


def file_hashes(root: Path) -> dict[str, str]:
    """The SHA-256 of every ledger and matrix under `root`, by `<op>/<file>`."""
    files = [path for name in (store.LEDGER_FILE, store.MATRIX_FILE) for path in judge_files.found(root, name)]
    return {f"{path.parent.name}/{path.name}": hashlib.sha256(store.read_bytes(path)).hexdigest() for path in files}
