"""A desk for tests of stored baselines: frozen ledgers, and runs that are measured, judged and promoted there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gate import store
from gate.cli import run
from gate.commands.machine_code import plan
from gate.ledgers.baselines import Provenance
from gate.model.outcome import Outcome, Results
from tests.analysis import build
from tests.codegen import records

SHA, NEXT = "a" * 40, "b" * 40
LEDGER = build.ledger(6)
DAY = "2026-06-01"
RELEASE = "v0.5.0"


def write_ledgers(root: Path) -> Path:
    store.write_jsonl(root / "rmsnorm" / store.LEDGER_FILE, LEDGER.shapes)
    text = yaml.safe_dump(msgspec.to_builtins(build.matrix()))
    store.write_text(root / "rmsnorm" / store.MATRIX_FILE, text)
    assert run(["ledger", "freeze", str(root)]) == 0
    return root


class Desk:
    """A folder of frozen ledgers and one for each run: measured, judged, promoted through the command line."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.ledgers = write_ledgers(folder / "frozen_ledgers")
        self.place = self.ledgers / "rmsnorm" / "baselines" / "gfx950"

    def measured(self, name: str, head: Results, base: Results | None = None) -> Path:
        out = self.folder / name
        for side, results in (("head", head), ("base", base)):
            if results is not None:
                store.write_jsonl(out / side / store.RESULTS_FILE, results.outcomes)
        return out

    def judged(self, source: Path, *more: str) -> int:
        argv = ["judge", "--ledger", str(self.ledgers), "--matrix", str(self.ledgers), "--today", DAY]
        argv += ["--base", str(source / "base"), "--head", str(source / "head"), "--out", str(source / "decision")]
        return run([*argv, *more])

    def promote(self, source: Path, *more: str, commit: str = SHA, decision: Path | None = None) -> tuple[int, str]:
        where = decision or source / "decision"
        argv = ["baseline", "promote", "--from", str(source), "--decision", str(where)]
        return self.call(*argv, "--ledgers", str(self.ledgers), "--commit", commit, "--date", DAY, *more)

    def record(self, source: Path, *more: str, commit: str = SHA) -> tuple[int, str]:
        argv = ["baseline", "record", "--from", str(source), "--ledgers", str(self.ledgers), "--commit", commit]
        return self.call(*argv, "--date", DAY, *more)

    def call(self, *argv: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = run(list(argv))
        said = self.capsys.readouterr()
        self.out = said.out
        return code, said.err

    def passed(self, name: str = "run", *, seed: int = 2, commit: str = SHA, **how: Any) -> Path:
        """A run that was measured beside its base and passes."""
        source = self.measured(name, head(seed, commit, **how), build.run(LEDGER, seed=1))
        assert self.judged(source) == 0
        return source

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.ledgers.rglob("*") if path.is_file())
        return {path.relative_to(self.ledgers).as_posix(): path.read_bytes() for path in found}

    def lines(self) -> list[Provenance]:
        return [line for _, line in store.decode_lines(self.place / "provenance.jsonl", Provenance)[0]]


def head(seed: int = 2, commit: str = SHA, **how: Any) -> Results:
    return build.run(LEDGER, seed=seed, candidate_commit=commit, **how)


class CodeDesk(Desk):
    """The same for machine code: records of the ledger's compile keys instead of times."""

    def records(self, **changes: Any) -> list[Any]:
        tools = msgspec.structs.replace(records.TOOLCHAIN, **changes)
        keys = sorted({case.compile_key for case in plan(LEDGER.shapes).cases.values()})
        made = records.record("rmsnorm")
        return [msgspec.structs.replace(made, compile_key=key, toolchain=tools) for key in keys]

    def compiled(self, name: str, head_records: list[Any]) -> Path:
        out = self.folder / name
        for side, found in (("base", self.records()), ("head", head_records)):
            store.write_jsonl(out / "code" / side / store.CODEGEN_FILE, found)
        argv = ["artifact", "judge", "--from", str(out), "--ledgers", str(self.ledgers), "--out", str(out / "decision")]
        assert run(argv) == 0
        return out


Edit = Callable[[Outcome], Outcome | None]


def edited(results: Results, change: Edit) -> Results:
    rows = [change(row) for row in results.outcomes]
    return Results(outcomes=tuple(row for row in rows if row is not None))


def own(index: int, **fields: Any) -> Edit:
    """Changes the candidate's row of one shape; without fields it is left out."""
    wanted = LEDGER.shapes[index].shape_id

    def change(row: Outcome) -> Outcome | None:
        if (row.shape_id, row.provider) != (wanted, "flydsl"):
            return row
        return msgspec.structs.replace(row, **fields) if fields else None

    return change


def every(**fields: Any) -> Edit:
    return lambda row: msgspec.structs.replace(row, **fields)


NO_TIME: dict[str, Any] = {"median_us": None, "blocks_us": None}
LENIENT = "[coverage]\nmeasured = 0.1\nconclusive = 0.1\n"
# What is done to the rows of head -> what is said. The policy lets all of them pass, so that promote itself must see.
PARTIAL: dict[str, tuple[Edit, str]] = {
    "a shape without a row": (own(0), "partial: 1 of 6 shapes have no row, such as sha1:"),
    "a skipped row": (own(0, benchmark_status="skipped", **NO_TIME), "partial: 1 of 6 shapes are skipped"),
    "a time without a check": (own(0, correct=None), "partial: 1 of 6 shapes have no time of a checked output"),
    "a time that none can take": (
        own(0, blocks_us=((3.0, 3.0), (-3.0, 3.0))),
        "partial: 1 of 6 shapes have no time of a checked output",
    ),
}
MIXED: dict[str, tuple[Edit, str]] = {
    "two GPUs": (own(0, gpu="AMD Instinct MI355X"), "more than one GPU: AMD Instinct MI350X, AMD Instinct MI355X"),
    "two methods": (own(0, timing_method="cudagraph"), "more than one timing method: cudagraph, graph_slope"),
    "two cache states": (own(0, cache_state="hot"), "more than one cache state: cold_hbm, hot"),
    "rows of a dirty tree": (every(candidate_commit=f"{SHA}-dirty"), f"the tree was dirty: rows are of {SHA}-dirty"),
    "rows of another commit": (every(candidate_commit=NEXT), f"rows are of {NEXT}, not of {SHA}"),
    "rows of no commit": (every(candidate_commit=None), "rows are of no named commit"),
    "no GPU": (every(gpu=None), "the rows do not say their GPU"),
}


def pin(desk: Desk, *more: str, release: str = RELEASE) -> tuple[int, str]:
    argv = ("baseline", "pin", "--ledgers", str(desk.ledgers), "--release", release, "--date", DAY)
    return desk.call(*argv, *more)


def drift(desk: Desk, source: Path, *more: str) -> tuple[int, str]:
    return desk.call("baseline", "drift", "--from", str(source), "--ledgers", str(desk.ledgers), *more)


def later(desk: Desk, name: str, **how: Any) -> Path:
    """A run of another session than the release, without a base."""
    return desk.measured(name, head(how.pop("seed", 21), NEXT, session_id=name, **how))
