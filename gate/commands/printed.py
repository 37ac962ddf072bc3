"""What a printed command is told so that it finds what this run was given: ledgers, candidate, the place of ops."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from gate import store
from gate.analysis.phrases import PROFILE_STEP, UNPROFILED_STEP
from gate.commands import judge_files
from gate.model.decision import Command, Decision
from gate.model.matrix import Matrix
from gate.replay import ops
from gate.resources import frozen_ledgers_dir

# How a decision names the ledgers that every verb finds by itself.
STORED = "frozen_ledgers"
REPLAY, PROFILE = "gate replay ", "gate profile "
# The candidate of a matrix that names none.
USUAL = "flydsl"
# The GPU that rows of the simulated one name.
SIMULATED = "simulated"
EXPLAINED = {
    "LEDGERS": "the folder of this run's ledgers",
    "LEDGER": "the ledger of this run",
    "MATRIX": "the matrix of this run",
    "OP_FROM": "MODULE:ATTR where the op is defined",
    "SIMULATE": "the --simulate of this run",
}


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run's ledgers and matrices lie, a file or a folder each, and where its ops are defined."""

    ledger: Path
    matrix: Path
    op_from: str | None = None


def given_of(ledgers: Path, *, op_from: str | None) -> Given:
    """One folder with ledgers and matrices."""
    return Given(ledger=ledgers, matrix=ledgers, op_from=op_from)


def repeatable(decision: Decision, *, matrices: Mapping[str, Matrix], given: Given) -> Decision:
    """The decision, whose commands find what was judged; on the simulated GPU, where it was that one.

    There its next step is no profile either.
    """
    simulated = decision.environment.head.get("gpu") == SIMULATED
    commands = pasteable(decision.commands, matrices=matrices, given=given, simulated=simulated)
    step = UNPROFILED_STEP if simulated and decision.next_step == PROFILE_STEP else decision.next_step
    return msgspec.structs.replace(decision, commands=commands, next_step=step)


def pasteable(
    commands: Iterable[Command], *, matrices: Mapping[str, Matrix], given: Given, simulated: bool = False
) -> tuple[Command, ...]:
    """The commands that measure, with what a new call would not find by itself; others as they are.

    A decision holds no path, so a place is a variable, which the command's text explains. No profiler sees a kernel of
    the simulated GPU: of a simulated run there is none to call.
    """
    return tuple(
        _told(one, matrices, given, simulated=simulated) if one.line.startswith((REPLAY, PROFILE)) else one
        for one in commands
        if not (simulated and one.line.startswith(PROFILE))
    )


def _told(command: Command, matrices: Mapping[str, Matrix], given: Given, *, simulated: bool) -> Command:
    words = shlex.split(command.line)
    op = words[words.index("--op") + 1]
    more: list[str] = []
    candidate = matrices[op].candidate_provider if op in matrices else USUAL
    if command.line.startswith(REPLAY) and candidate != USUAL:
        more.append(shlex.join(["--candidate", candidate]))
    if given.op_from is not None:
        more.append(shlex.join(["--op-from", given.op_from]))
    elif not _defined(op):
        more.append('--op-from "$OP_FROM"')
    more += _place(given, op) + (['--simulate "$SIMULATE"'] if simulated else [])
    line = command.line.replace(" --out ", f" {' '.join([*more, '--out'])} ", 1)
    return explained(Command(what=command.what, line=line), EXPLAINED)


def _defined(op: str) -> bool:
    """Whether this package defines the op."""
    return op.isidentifier() and any((Path(folder) / f"{op}.py").is_file() for folder in ops.__path__)


def _place(given: Given, op: str) -> list[str]:
    """The options that name the ledger and the matrix of an op; none where they are the package's own."""
    if given.ledger.resolve() == given.matrix.resolve() and (given.ledger / op / store.LEDGER_FILE).is_file():
        return [] if is_packaged(given.ledger) else ['--ledgers "$LEDGERS"']
    ledger, matrix = (
        f'"${name}{_inside(path, file, op)}"'
        for name, path, file in (
            ("LEDGER", given.ledger, store.LEDGER_FILE),
            ("MATRIX", given.matrix, store.MATRIX_FILE),
        )
    )
    return [f"--ledger {ledger}", f"--matrix {matrix}"]


def _inside(path: Path, name: str, op: str) -> str:
    """Where in `path` the op's file lies, as the rest of a path; empty where `path` is the file."""
    files = [file.relative_to(path) for file in judge_files.found(path, name) if file != path]
    if not files:
        return ""
    named = [file for file in files if file.parent.name == op]
    own = named or [file for file in files if len(files) == 1 or op in _ops_in(path / file)]
    return "".join(f"/{part}" for part in [*own, *files][0].parts)


def _ops_in(file: Path) -> set[str]:
    if file.name == store.MATRIX_FILE:
        return {store.read_matrix(file).op_type}
    return {shape.op_type for shape in store.read_ledger(file).shapes}


def is_packaged(ledgers: Path) -> bool:
    """Whether these are the ledgers that come with the package, which a measuring command finds by itself."""
    return ledgers.resolve() == frozen_ledgers_dir().resolve()


def ledgers_of_run(ledgers: Path) -> str:
    """How a line names the ledgers of `gate run`: by their usual name where it finds them itself, else a variable."""
    here = Path(STORED)
    usual = here if here.is_dir() else frozen_ledgers_dir()
    return STORED if ledgers.resolve() == usual.resolve() else '"$LEDGERS"'


def inside(place: str, rest: str) -> str:
    """A file or folder in a place that a line names."""
    return f'{place[:-1]}/{rest}"' if place.endswith('"') else f"{place}/{rest}"


def explained(command: Command, words: Mapping[str, str]) -> Command:
    """The command whose text says what each of these variables in its line stands for."""
    used = set(re.findall(r'"\$([A-Z_]+)', command.line))
    told = "".join(f"; {name}: {what}" for name, what in words.items() if name in used)
    return Command(what=command.what + told, line=command.line)
