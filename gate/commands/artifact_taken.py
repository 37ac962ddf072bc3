"""The two folders of `gate artifact take`: the checked rows, and the verdict where there are none to judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gate import store
from gate.commands import judged
from gate.commands.artifact_judge import nothing_changed, read_decision
from gate.model.decision import Decision
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.replay.journal import LOCK
from gate.replay.run_folder import OTHER_OUT

# Part of a bundle -> where `take` puts it and `judge` finds it.
PLACES = {
    "base_results": Path("base") / store.RESULTS_FILE,
    "head_results": Path("head") / store.RESULTS_FILE,
    "base_code": Path("code/base") / store.CODEGEN_FILE,
    "head_code": Path("code/head") / store.CODEGEN_FILE,
    "confirm_base": Path("confirm/base") / store.RESULTS_FILE,
    "confirm_head": Path("confirm/head") / store.RESULTS_FILE,
}
FOLDERS = frozenset(parent for place in PLACES.values() for parent in place.parents)
TAKE_AGAIN = "see the run's log, then take its results in again"


def spare(out: Path) -> None:
    """Raises WrongUsage where the folder holds anything that `take` does not write: it would be cleared."""
    other = next(_foreign(out, Path()), None) if out.is_dir() else None
    if other is not None:
        what = f"holds {other}, which is no result that was taken in and would be removed"
        raise WrongUsage(Problem(what=what, file=str(out), fix=OTHER_OUT))


def _foreign(out: Path, at: Path) -> Iterator[Path]:
    """What lies in the folder `at`, relative to `out`, and is none of ours: neither a part nor one cut in writing."""
    for path in sorted((out / at).iterdir()):
        place = at / path.name
        if path.is_dir() and not path.is_symlink() and place in FOLDERS:
            yield from _foreign(out, place)
        elif not path.is_file() or path.is_symlink() or not (place == Path(LOCK) or _of_a_part(place)):
            yield place


def _of_a_part(place: Path) -> bool:
    return any(
        place == part or (place.parent == part.parent and place.name.startswith(f".{part.name}."))
        for part in PLACES.values()
    )


def clear(out: Path) -> None:
    """Removes all that lies in the folder but its lock, which is held. Raises UnusableInput where a file stays."""
    for path in sorted(out.iterdir()):
        if path.is_dir() and not path.is_symlink():
            store.remove_folder(path)
        elif path.name != LOCK:
            store.remove_file(path)


def not_taken(problems: tuple[Problem, ...]) -> Decision:
    """The decision of results that could not be taken in: no verdict."""
    return msgspec.structs.replace(judged.unusable(problems), next_step=TAKE_AGAIN)


def left(source: Path, out: Path) -> bool:
    """Whether the decision in `out` is one that `take` left there instead of the rows in `source`.

    No verdict is, whatever rows of an earlier run `source` still holds.
    """
    try:
        decision = read_decision(out)
    except UnusableInput:
        return False
    failed = decision.gate == "no_verdict" and decision.next_step == TAKE_AGAIN
    return failed or (_nothing_in(source) and decision == nothing_changed())


def check(source: Path) -> None:
    """Raises UnusableInput where `take` left no rows in the folder: it is not there, or holds the lock alone."""
    if not _nothing_in(source):
        return
    if (source / LOCK).is_file():
        what, fix = "nothing was taken: the run measured and compiled nothing", "see the run's log"
    else:
        what, fix = "nothing was taken: there are no results here", "name what gate artifact take left with --from"
    raise UnusableInput(Problem(what=what, file=str(source), fix=fix))


def _nothing_in(source: Path) -> bool:
    return not source.is_dir() or {path.name for path in source.iterdir()} <= {LOCK}
