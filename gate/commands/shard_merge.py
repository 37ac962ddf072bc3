"""What the runners of a plan left, put together: complete, of one kind, and judged as one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.commands import judge_files, judged, printed, shard_plan, timed_judge, timed_options, timed_part, timed_run
from gate.commands.run import POLICY_FILE, WAIVERS_FILE, read_frozen
from gate.commands.shard_plan import PLAN_FILE, ShardPlan
from gate.commands.timed_part import PART_FILE, Part
from gate.commands.timed_session import CONFIRM_FOLDER, MeasuredRun
from gate.commands.timed_tape import Rows
from gate.commands.timed_work import Work, file_hashes, inputs_of, work_of
from gate.model.decision import Decision
from gate.model.matrix import Matrix
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.model.text import counted
from gate.replay import run_folder
from gate.replay.blocks import BASE, HEAD

# What must be equal for the shards' rows to be one run; other parts of the stack are told by the judge.
ONE_MACHINE = ("gpu", "arch", "rocm_version", "driver_version")
MOST_NAMED = 20


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that left an account, and where."""

    folder: Path
    part: Part


def run(
    folders: Sequence[Path],
    *,
    plan_file: Path | None,
    ledgers: Path,
    policy: Path | None,
    waivers: Path | None,
    out: Path,
) -> Decision:
    """The decision, written with its reports; an unusable input leaves a written no-verdict behind and is raised.

    Raises WrongUsage before anything is removed where `out` is one of the shards, would remove one, or holds a run.
    """
    cleared = [out / name for name in (timed_run.HEAD_ROWS, timed_run.BASE_ROWS, CONFIRM_FOLDER)]
    outside(out, cleared, [*folders, *([plan_file] if plan_file else [])])
    run_folder.claim(out, run_folder.ROWS, anew=True)
    judged.clear(out)
    for folder in cleared:
        store.remove_folder(folder)
    try:
        plan = shard_plan.read(plan_file or planned(folders))
        found = [Found(folder=folder, part=timed_part.read(folder)) for folder in folders if _left(folder)]
        check(found, plan)
        work = whole_work(plan, found, ledgers)
        frame = timed_judge.Frame(
            work=work,
            policy=judge_files.read_policy(judge_files.beside(ledgers, POLICY_FILE, given=policy)),
            waivers=judge_files.read_waivers(judge_files.beside(ledgers, WAIVERS_FILE, given=waivers)),
            today=datetime.now(UTC).date(),
            given=printed.given_of(ledgers, op_from=found[0].part.engine.op_from or None),
        )
        judged_alike(found[0], frame)
        measured = put_together(found, plan, work)
        timed_run.write_rows(out, work, measured)
        decision = timed_judge.judge_rows(frame, measured, root=ledgers, code={}, may_block=False)
    except UnusableInput as error:
        judged.write(judged.unusable(error.problems), out)
        raise
    judged.write(decision, out)
    timed_run.write_reports(out)
    return decision


def outside(out: Path, cleared: Sequence[Path], places: Sequence[Path]) -> None:
    """Raises WrongUsage where one of the `places` is `out`, or lies in a folder that is cleared."""
    for place in places:
        here = place.resolve()
        if here == out.resolve() or any(here.is_relative_to(folder.resolve()) for folder in cleared):
            what = f"--out {out} would write over it"
            raise WrongUsage(Problem(what=what, file=str(place), fix="name another --out"))


def _left(folder: Path) -> bool:
    return (folder / PART_FILE).is_file()


def planned(folders: Sequence[Path]) -> Path:
    """The plan that a shard was run with. Raises UnusableInput where none left one."""
    place = next((folder / PLAN_FILE for folder in folders if (folder / PLAN_FILE).is_file()), None)
    if place is None:
        what = f"no shard left a {PLAN_FILE}"
        raise UnusableInput(Problem(what=what, file=", ".join(map(str, folders)), fix="name the plan with --plan"))
    return place


def check(found: Sequence[Found], plan: ShardPlan) -> None:
    """Raises UnusableInput where the shards are not parts of this plan, or cannot be one run."""
    if not found:
        raise UnusableInput(Problem(what="no shard left anything", file="", fix="see the logs of the runners"))
    problems = [problem for one in found for problem in _of_plan(one, plan)]
    by_shard: dict[str, Found] = {}
    for one in found:
        earlier = by_shard.setdefault(one.part.shard, one)
        if earlier is not one:
            what = f"shard {one.part.shard} is there twice, also in {earlier.folder}"
            problems.append(Problem(what=what, file=str(one.folder), fix="name each shard's folder once"))
    problems += _unlike(found)
    if problems:
        raise UnusableInput(*problems)


def _of_plan(one: Found, plan: ShardPlan) -> list[Problem]:
    shards = {shard.shard: shard for shard in plan.shards}
    said = one.part
    if said.shard not in shards:
        return [Problem(what=f"shard {said.shard} is not one of a plan for {plan.runners}", file=str(one.folder))]
    problems = []
    if said.ledgers != plan.ledgers:
        names = sorted(n for n in {*said.ledgers, *plan.ledgers} if said.ledgers.get(n) != plan.ledgers.get(n))
        problems.append(Problem(what=f"shard {said.shard} measured another {names[0]}", file=str(one.folder)))
    if said.shapes != shards[said.shard].shapes:
        problems.append(Problem(what=f"shard {said.shard} has other shapes than the plan", file=str(one.folder)))
    unlike = shard_plan.unlike(plan, said.measured)
    if unlike:
        what = f"shard {said.shard} is of another run: {'; '.join(unlike)}"
        fix = "measure it again with the options that the plan was made with"
        problems.append(Problem(what=what, file=str(one.folder), fix=fix))
    return problems


def _unlike(found: Sequence[Found]) -> list[Problem]:
    """What differs between the first shard and another that must be equal."""
    told: list[Problem] = []
    aspects: dict[str, Callable[[Part], Mapping[str, Any]]] = {
        "commit of": lambda part: part.commits,
        "setting": lambda part: msgspec.structs.asdict(part.engine),
        "machine's": lambda part: {name: "/".join(part.machine.get(name, ())) for name in ONE_MACHINE},
    }
    measured = [one for one in found if any(one.part.machine.values())]
    for word, of in aspects.items():
        for one in (measured if word == "machine's" else found)[1:]:
            first = (measured if word == "machine's" else found)[0]
            before, now = of(first.part), of(one.part)
            for name in sorted({*before, *now}):
                if before.get(name) != now.get(name):
                    what = (
                        f"{word} {name}: shard {one.part.shard} has {now.get(name)}, "
                        f"shard {first.part.shard} has {before.get(name)}"
                    )
                    told.append(Problem(what=what, file=str(one.folder), fix="measure both on one kind of machine"))
    return told


def judged_alike(one: Found, frame: timed_judge.Frame) -> None:
    """Raises UnusableInput where the shards went by another policy or other waivers than the judgement is to."""
    engine = one.part.engine
    hashes = {
        "policy": (engine.policy, timed_part.digest(frame.policy)),
        "waivers": (engine.waivers, timed_part.digest(frame.waivers)),
    }
    for name, (theirs, ours) in hashes.items():
        if theirs != ours:
            what = f"shard {one.part.shard} went by another --{name} than this is to be judged by"
            fix = f"give the --{name} of the shards, or go on with each shard by this one (--resume)"
            raise UnusableInput(Problem(what=what, file=str(one.folder), fix=fix))


def whole_work(plan: ShardPlan, found: Sequence[Found], ledgers: Path) -> Work:
    """The work of the whole plan. Raises UnusableInput where the ledgers here are not those that were measured."""
    frozen = read_frozen(ledgers)
    if frozen.problems:
        raise UnusableInput(*frozen.problems)
    hashes = file_hashes(ledgers)
    shard_plan.shard_of(plan, plan.shards[0].shard, ledgers=hashes, file=str(ledgers))
    wanted = {shape_id for shard in plan.shards for shape_id in shard.shapes}
    shapes: list[Shape] = [shape for shape in frozen.shapes if shape.shape_id in wanted]
    nameless = sorted({shape.op_type for shape in shapes} - plan.candidates.keys())
    if nameless:
        what = f"the plan names no candidate of {nameless[0]}"
        raise UnusableInput(Problem(what=what, file="", fix="make it with gate shard plan"))
    matrices: dict[str, Matrix] = {
        op: msgspec.structs.replace(matrix, candidate_provider=plan.candidates[op])
        for op, matrix in judge_files.read_matrices(ledgers).items()
        if op in plan.candidates
    }
    engine = found[0].part.engine
    timed = {**timed_options.DEFAULTS, "providers": engine.providers}
    scope = (
        f"{len(shapes)} of {counted(len(frozen.shapes), 'frozen shape')}" if len(shapes) != len(frozen.shapes) else ""
    )
    return work_of(
        inputs_of(shapes, matrices, hashes=hashes), timed, base="" if engine.both else None, scope=scope, plan=plan
    )


def put_together(found: Sequence[Found], plan: ShardPlan, work: Work) -> MeasuredRun:
    """All rows, in the plan's order, with a problem for each shard that is absent or broke off."""
    sides = (HEAD, BASE) if work.both else (HEAD,)
    by_shard = {one.part.shard: one for one in found}
    rows: Rows = {side: [] for side in sides}
    confirm: Rows = {side: [] for side in sides}
    broken: list[Problem] = []
    for shard in plan.shards:
        one = by_shard.get(shard.shard)
        if one is None and not shard.shapes:
            continue
        if one is None:
            broken.append(_dead(shard, "left nothing"))
            continue
        if not one.part.finished:
            broken.append(_dead(shard, f"broke off ({'; '.join(one.part.problems) or 'it does not say why'})"))
        places = {HEAD: one.folder / timed_run.HEAD_ROWS, BASE: one.folder / timed_run.BASE_ROWS}
        for side in sides:
            rows[side] += _rows(places[side], shard)
            again = one.folder / CONFIRM_FOLDER / side
            confirm[side] += _rows(again, shard) if again.is_dir() else []
    return MeasuredRun(
        rows=rows, confirm=confirm if work.both and any(confirm.values()) else None, broken=tuple(broken)
    )


def _dead(shard: shard_plan.Shard, how: str) -> Problem:
    named = ", ".join(shard.shapes[:MOST_NAMED])
    more = f" and {len(shard.shapes) - MOST_NAMED} more" if shard.shapes[MOST_NAMED:] else ""
    return Problem(what=f"shard {shard.shard} {how}; its {counted(len(shard.shapes), 'shape')}: {named}{more}", file="")


def _rows(folder: Path, shard: shard_plan.Shard) -> list[Any]:
    """The shard's rows. Raises UnusableInput for a refused row, or one of a shape that is not the shard's."""
    results = judge_files.merged(store.read_results(file) for file in judge_files.found(folder, store.RESULTS_FILE))
    if results.problems:
        raise UnusableInput(*results.problems)
    strange = {row.shape_id for row in results.outcomes} - set(shard.shapes)
    if strange:
        what = f"shard {shard.shard} has rows of {min(strange)}, which is not its own"
        raise UnusableInput(Problem(what=what, file=str(folder)))
    return list(results.outcomes)
