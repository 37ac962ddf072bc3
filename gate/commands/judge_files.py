"""Where the inputs of a judgement lie: one file, or a folder laid out like frozen_ledgers/ with one folder per op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TypeVar

from gate import bulk, store
from gate.analysis.judge import Inputs
from gate.analysis.plain import columns
from gate.analysis.plain.columns import Columns
from gate.analysis.policy_text import policy_from, waivers_from
from gate.model.diagnosis import Diagnosis
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.outcome import MeasuredResults, Results
from gate.model.policy import Policy
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import Shape
from gate.model.waiver import Waiver
from gate.replay.run_folder import results_of

T = TypeVar("T")
DIAGNOSIS_FILE = "diagnosis.json"


def found(path: Path, name: str, *, arch: str | None = None) -> list[Path]:
    """`path` itself, or every `<op>/<name>` (or `<name>`) in a folder, in name order.

    A folder of frozen ledgers holds results under `<op>/baselines/<arch or gpu>/`; `arch` is the name of the one that
    is meant. Raises UnusableInput where an op has several of them and `arch` does not choose.
    """
    if not path.is_dir():
        return [path]
    direct = sorted([*path.glob(name), *path.glob(f"*/{name}")])
    if direct:
        return direct
    frozen = _frozen(path, f"baselines/{arch or '*'}/{name}")
    ops = [file.parents[2].name for file in frozen]
    double = sorted({op for op in ops if ops.count(op) > 1})
    if double:
        names = ", ".join(file.parent.name for file in frozen if file.parents[2].name == double[0])
        what = f"several baselines of {double[0]}: {names}"
        raise UnusableInput(Problem(what=what, file=str(path), fix="name the one that head ran on with --arch"))
    return frozen


def _frozen(path: Path, pattern: str) -> list[Path]:
    """What lies so in each op's folder in `path`, or in `path` as one op's folder."""
    return sorted([*path.glob(f"*/{pattern}"), *path.glob(pattern)])


def _each(path: Path, name: str, read: Callable[[Path], T], *, arch: str | None = None) -> list[T]:
    files = found(path, name, arch=arch)
    if not files and arch is not None:
        names = sorted({file.parent.name for file in _frozen(path, f"baselines/*/{name}")})
        fix = f"there are {', '.join(names)}" if names else f"expected <op>/baselines/{arch}/{name}"
        raise UnusableInput(Problem(what=f"no {name} of {arch} in this folder", file=str(path), fix=fix))
    if not files:
        fix = results_of(path, name) or f"expected <op>/{name}"
        raise UnusableInput(Problem(what=f"no {name} in this folder", file=str(path), fix=fix))
    return [read(file) for file in files]


def read_ledgers(path: Path) -> Ledger:
    """All ledgers under `path` as one. A shape that occurs in two files is a problem."""
    parts = _each(path, store.LEDGER_FILE, store.read_ledger)
    shapes: dict[str, Shape] = {}
    problems = [problem for part in parts for problem in part.problems]
    for shape in (shape for part in parts for shape in part.shapes):
        if shapes.setdefault(shape.shape_id, shape) is not shape:
            what = f"{shape.shape_id} is in two ledgers"
            problems.append(Problem(what=what, file=str(path), shape_id=shape.shape_id))
    if not shapes and not problems:
        raise UnusableInput(Problem(what="the ledger holds no shape", file=str(path), fix="import shapes first"))
    return Ledger(shapes=tuple(shapes.values()), problems=tuple(problems))


def read_matrices(path: Path) -> dict[str, Matrix]:
    """The matrices under `path` by op_type. Raises UnusableInput if two are for one op."""
    matrices: dict[str, Matrix] = {}
    for matrix in _each(path, store.MATRIX_FILE, store.read_matrix):
        if matrix.op_type in matrices:
            raise UnusableInput(Problem(what=f"two matrices for {matrix.op_type}", file=str(path), fix="remove one"))
        matrices[matrix.op_type] = matrix
    return matrices


def read_results(path: Path) -> Results:
    """All results under `path` as one run."""
    return merged(_each(path, store.RESULTS_FILE, store.read_results))


def read_measured(path: Path) -> MeasuredResults:
    """All results under `path` as one run, as far as a judgement reads them."""
    return _one_run(_each(path, store.RESULTS_FILE, store.read_measured))


def _measured(path: Path, read: bulk.Reader, *, arch: str | None = None) -> Callable[[], MeasuredResults | Columns]:
    """Starts to read all results under `path`, as far as a judgement reads them; the call waits for them, as one run.

    Nothing is raised before that call, so that faults are told in the order of the inputs.
    """
    if path.is_dir():
        return lambda: _joined([waiting() for waiting in _each(path, store.RESULTS_FILE, read, arch=arch)])
    return read(path)


def _joined(parts: Sequence[MeasuredResults | Columns]) -> MeasuredResults | Columns:
    """Parts of one run, as columns if any of them is large."""
    rows = [part for part in parts if isinstance(part, MeasuredResults)]
    if len(rows) == len(parts):
        return _one_run(rows)
    return columns.joined(
        [columns.of_rows(part.outcomes, part.problems) if isinstance(part, MeasuredResults) else part for part in parts]
    )


def _one_run(parts: Sequence[MeasuredResults]) -> MeasuredResults:
    return MeasuredResults(
        outcomes=tuple(chain.from_iterable(part.outcomes for part in parts)) if len(parts) > 1 else parts[0].outcomes,
        problems=tuple(problem for part in parts for problem in part.problems),
    )


def merged(parts: Iterable[Results]) -> Results:
    """Several results as one run."""
    listed = list(parts)
    return Results(
        outcomes=tuple(outcome for part in listed for outcome in part.outcomes),
        problems=tuple(problem for part in listed for problem in part.problems),
    )


def beside(root: Path, name: str, *, given: Path | None) -> Path | None:
    """The file as given, else that of this name beside the ledgers, where there is one."""
    own = root / name
    return given or (own if own.is_file() else None)


def read_policy(path: Path | None) -> Policy:
    """The policy in `path`, or the defaults. Raises UnusableInput for any key that is wrong."""
    return Policy() if path is None else policy_from(store.read_toml(path), file=str(path))


def read_waivers(path: Path | None) -> tuple[Waiver, ...]:
    """The waivers in `path`, or none. Raises UnusableInput for any key that is wrong."""
    return () if path is None else waivers_from(store.read_toml(path), file=str(path))


def read_profiles(path: Path) -> dict[tuple[str, str], Diagnosis]:
    """Every diagnosis.json below `path` by shape_id and provider.

    Raises UnusableInput if there is none, one is no diagnosis, or two are of one row.
    """
    profiles: dict[tuple[str, str], Diagnosis] = {}
    for file in [path] if path.is_file() else sorted(path.rglob(DIAGNOSIS_FILE)):
        fix = "make it again with gate profile"
        one = store.read_record(file, Diagnosis, what="a diagnosis", fix=fix, most=store.DOCUMENT_BYTES)
        if (one.shape_id, one.provider) in profiles:
            what = f"a second diagnosis of {one.shape_id} of {one.provider}"
            raise UnusableInput(Problem(what=what, file=str(file), fix="keep the one of head"))
        profiles[one.shape_id, one.provider] = one
    if not profiles:
        fix = "run gate profile with --out here"
        raise UnusableInput(Problem(what=f"no {DIAGNOSIS_FILE} in this folder", file=str(path), fix=fix))
    return profiles


def read_inputs(
    *,
    ledger: Path,
    matrix: Path,
    base: Path,
    head: Path,
    policy: Path | None,
    waivers: Path | None,
    confirm: tuple[Path, Path] | None,
    today: date,
    profiles: Path | None = None,
    arch: str | None = None,
) -> Inputs:
    """Everything a judgement needs, read; `arch` chooses among baselines.

    Raises UnusableInput for a file that cannot be used at all.
    """
    with bulk.reader() as read:
        was, now = _measured(base, read, arch=arch), _measured(head, read, arch=arch)
        again = None if confirm is None else (_measured(confirm[0], read), _measured(confirm[1], read))
        return Inputs(
            ledger=read_ledgers(ledger),
            matrices=read_matrices(matrix),
            base=was(),
            head=now(),
            policy=read_policy(policy),
            waivers=read_waivers(waivers),
            confirm=None if again is None else (again[0](), again[1]()),
            profiles={} if profiles is None else read_profiles(profiles),
            today=today,
        )
