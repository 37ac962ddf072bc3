"""What a timed run is asked to measure: ledgers held against their locks, narrowed, and turned into jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.commands import judge_files, shard_plan
from gate.commands.begun import file_hashes as file_hashes
from gate.commands.replay import named_shapes, parse_arms
from gate.commands.replay_inputs import Inputs, Selection, choose, split_list
from gate.commands.run import Limits, narrowed, read_frozen, scope
from gate.commands.shard_plan import Measured, ShardPlan
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.model.text import counted
from gate.replay.arms import ArmSpec
from gate.replay.job import Job
from gate.replay.shards import Costs


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The shapes of a run in the ledgers' order, their jobs, and why a (shape_id, provider) has none.

    `scope` says in words what of the frozen ledgers is left out; `both` whether base is measured too; `op_from` is
    empty where the ops are this package's; `plan` is the plan that the run is a shard of.
    """

    inputs: Inputs
    jobs: list[Job]
    left_out: dict[tuple[str, str], str]
    selection: Selection
    arms: dict[str, ArmSpec]
    both: bool
    scope: str
    op_from: str = ""
    plan: ShardPlan | None = None

    @property
    def measured(self) -> Measured:
        """What must be as the plan says for this to be a shard of it."""
        return Measured(
            candidates={op: matrix.candidate_provider for op, matrix in sorted(self.inputs.matrices.items())},
            both=self.both,
            providers=tuple(sorted(set(self.selection.providers))),
            op_from=self.op_from,
        )

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
    asked = inputs_of(selected(ledger.shapes, timed), matrices, hashes=file_hashes(root))
    whole = work_of(asked, timed, base=base, scope=scope(frozen, Ledger(shapes=asked.shapes)))
    return whole if timed["shard"] is None else shard_of_work(whole, timed, base=base)


def inputs_of(shapes: Sequence[Shape], matrices: Mapping[str, Matrix], *, hashes: dict[str, str]) -> Inputs:
    """The shapes with the matrices of their ops."""
    ops = {shape.op_type for shape in shapes}
    used = {op: matrix for op, matrix in matrices.items() if op in ops}
    return Inputs(shapes=tuple(shapes), matrices=used, hashes=hashes)


def work_of(
    inputs: Inputs, timed: Mapping[str, Any], *, base: str | None, scope: str, plan: ShardPlan | None = None
) -> Work:
    """The work on these inputs."""
    ids = tuple(shape.shape_id for shape in inputs.shapes)
    selection = Selection(providers=split_list(timed["providers"]), shapes=ids)
    jobs, left_out = choose(inputs, selection, both=base is not None, op=timed["op_from"])
    return Work(
        inputs=inputs,
        jobs=jobs,
        left_out=left_out,
        selection=selection,
        arms=parse_arms({**timed, "base": base}),
        both=base is not None,
        scope=scope,
        op_from=timed["op_from"] or "",
        plan=plan,
    )


def shard_of_work(whole: Work, timed: Mapping[str, Any], *, base: str | None) -> Work:
    """The part of the work that is one shard's, by the plan that is named, else by one made from modelled costs."""
    text, path = timed["shard"], timed["plan"]
    plan = shard_plan.read(path) if path is not None else plan_for(whole, shard_plan.parse(text)[1])
    shard = shard_plan.shard_of(plan, text, ledgers=whole.inputs.hashes, file=str(path or ""))
    wanted = set(shard.shapes)
    unknown = wanted - {shape.shape_id for shape in whole.inputs.shapes}
    if unknown:
        what = f"the plan has {min(unknown)}, which is not among the shapes that are asked for"
        raise WrongUsage(Problem(what=what, file=str(path), fix="give the options that the plan was made with"))
    shapes = [shape for shape in whole.inputs.shapes if shape.shape_id in wanted]
    if not shapes:
        raise WrongUsage(Problem(what=f"shard {text} has no shape", file=str(path or ""), fix="use fewer runners"))
    inputs = inputs_of(shapes, whole.inputs.matrices, hashes=whole.inputs.hashes)
    total = sum(len(one.shapes) for one in plan.shards)
    told = f"shard {text}: {len(shapes)} of the run's {counted(total, 'shape')}"
    work = work_of(inputs, timed, base=base, scope=f"{told}; {whole.scope}" if whole.scope else told, plan=plan)
    unlike = shard_plan.unlike(plan, work.measured)
    if unlike:
        fix = "give the options that the plan was made with"
        raise WrongUsage(Problem(what=f"the plan is of another run: {'; '.join(unlike)}", file=str(path), fix=fix))
    return work


def plan_for(whole: Work, runners: int, costs: Costs | None = None) -> ShardPlan:
    """The plan that shares this work out, by modelled costs where none are given."""
    return shard_plan.make(
        whole.jobs, runners=runners, ledgers=whole.inputs.hashes, measured=whole.measured, costs=costs
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
