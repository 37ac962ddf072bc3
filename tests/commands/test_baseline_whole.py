"""All ops or none: a part of a decision is no baseline, and a part of a release is not held against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.commands.machine_code import plan
from gate.model.outcome import Outcome
from tests.analysis import build
from tests.codegen import records
from tests.commands.baseline_desk import LEDGER, LENIENT, NO_TIME, SHA, CodeDesk, Desk, drift, head, later, pin

OTHER = build.ledger(3, op_type="softmax")
Change = Callable[[Outcome], Outcome | None]


def freeze_other(ledgers: Path) -> None:
    store.write_jsonl(ledgers / "softmax" / store.LEDGER_FILE, OTHER.shapes)
    text = (ledgers / "rmsnorm" / store.MATRIX_FILE).read_text().replace("rmsnorm", "softmax")
    store.write_text(ledgers / "softmax" / store.MATRIX_FILE, text)
    assert run(["ledger", "freeze", str(ledgers)]) == 0


@pytest.fixture
def two(desk: Desk) -> Desk:
    freeze_other(desk.ledgers)
    return desk


def add(source: Path, side: str, seed: int, change: Change = lambda row: row, **how: Any) -> Path:
    """Rows of softmax beside those of rmsnorm; a change that gives None leaves a row out."""
    rows = map(change, build.run(OTHER, seed=seed, **how).outcomes)
    store.write_jsonl(source / side / "softmax" / store.RESULTS_FILE, [row for row in rows if row is not None])
    return source


def both(desk: Desk, *policy: str, change: Change = lambda row: row) -> Path:
    source = desk.measured("run", head(), build.run(LEDGER, seed=1))
    add(add(source, "head", 2, change, candidate_commit=SHA), "base", 1, change)
    assert desk.judged(source, *policy) == 0
    return source


def own(**fields: Any) -> Change:
    return lambda row: msgspec.structs.replace(row, **fields) if row.provider == "flydsl" else row


def first(change: Change) -> Change:
    """The change on the candidate's rows of the first two shapes alone."""
    some = {shape.shape_id for shape in OTHER.shapes[:2]}
    return lambda row: change(row) if row.shape_id in some and row.provider == "flydsl" else row


def left(path: Path, how: str) -> None:
    if how == "no file":
        path.unlink()
        return
    rows = [row for row in store.read_results(path).outcomes if row.provider != "flydsl"]
    spared = [msgspec.structs.replace(row, provider="flydsl", benchmark_status="skipped", **NO_TIME) for row in rows]
    store.write_jsonl(path, {"no rows": [], "only rivals": rows, "skipped": [*rows, *spared[:3]]}[how])


@pytest.mark.parametrize("how", ["no file", "no rows", "only rivals", "skipped"])
def test_an_op_that_was_judged_and_is_not_offered_keeps_the_others_back(two: Desk, how: str) -> None:
    source = both(two)
    before = two.files()
    left(source / "head" / "softmax" / store.RESULTS_FILE, how)
    code, error = two.promote(source)
    assert code == 1 and two.files() == before
    (line,) = error.splitlines()
    assert "softmax: left out: the decision judged 3 rows of flydsl, none of them is here" in line


def test_the_whole_run_is_promoted(two: Desk) -> None:
    assert two.promote(both(two)) == (0, "")
    assert all((two.ledgers / op / "baselines" / "gfx950").is_dir() for op in ("rmsnorm", "softmax"))


@pytest.mark.parametrize("status", ["skipped", "unsupported"])
def test_an_op_of_which_the_decision_says_that_it_was_not_measured_keeps_its_baseline(two: Desk, status: str) -> None:
    policy = two.folder / "policy.toml"
    policy.write_text(LENIENT)
    source = both(two, "--policy", str(policy), change=own(benchmark_status=status, correct=None, **NO_TIME))
    code, error = two.promote(source)
    assert code == 0 and f"softmax: flydsl was not measured ({status}); its baseline stays" in error
    assert not (two.ledgers / "softmax" / "baselines").exists()
    (source / "head" / "softmax" / store.RESULTS_FILE).unlink()
    assert two.promote(source) == (0, "")


def test_machine_code_of_a_part_of_the_ops_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = CodeDesk(tmp_path, capsys)
    freeze_other(code.ledgers)
    made = records.record("softmax")
    keys = sorted({case.compile_key for case in plan(OTHER.shapes).cases.values()})
    own_records = code.records()
    every = [*own_records, *(msgspec.structs.replace(made, compile_key=key) for key in keys)]
    code.records = lambda **_: every  # type: ignore[method-assign]
    source = code.compiled("run", every)
    before = code.files()
    store.write_jsonl(source / "code" / "head" / store.CODEGEN_FILE, own_records)
    result, error = code.promote(source)
    assert result == 1 and code.files() == before
    assert "softmax: left out: the decision judged 3 rows of flydsl, none of them is here" in error
    store.write_jsonl(source / "code" / "head" / store.CODEGEN_FILE, every)
    assert code.promote(source) == (0, "")


@pytest.fixture
def pinned(two: Desk) -> Iterator[Desk]:
    assert two.promote(both(two))[0] == 0
    assert pin(two)[0] == 0
    yield two


def night(desk: Desk, change: Change | None = lambda row: row, **how: Any) -> Path:
    """A later run of both ops; of rmsnorm alone without a change."""
    source = later(desk, "night")
    return source if change is None else add(source, "head", 22, change, session_id="night", **how)


def test_a_whole_run_is_held_against_the_release(pinned: Desk) -> None:
    assert drift(pinned, night(pinned)) == (0, "")


LACKING: dict[str, tuple[Change | None, str]] = {
    "no row": (None, "softmax: not held against release v0.5.0: 0 of its 3 rows: flydsl has no time here"),
    "all failed": (
        own(benchmark_status="failed", **NO_TIME),
        "softmax: not held against release v0.5.0: 0 of its 3 rows: flydsl has no time here",
    ),
    "another machine": (
        lambda row: msgspec.structs.replace(row, arch="gfx1100"),
        "softmax: not held against release v0.5.0: 3 rows were measured in both, none in the same way on the same kind",
    ),
    "two rows missing": (
        first(lambda _: None),
        "softmax: held only in part against release v0.5.0: only 1 of its 3 rows: 2 without a time here, such as sha1:",
    ),
    "two rows failed": (
        first(own(benchmark_status="failed", **NO_TIME)),
        "softmax: held only in part against release v0.5.0: only 1 of its 3 rows: 2 without a time here, such as sha1:",
    ),
    "two rows hot": (
        first(own(cache_state="hot")),
        "softmax: held only in part against release v0.5.0: only 1 of its 3 rows: 2 measured in another way, such as",
    ),
}


@pytest.mark.parametrize("name", LACKING)
def test_what_the_release_has_and_the_run_has_not_is_never_fine(pinned: Desk, name: str) -> None:
    change, words = LACKING[name]
    source = night(pinned, change)
    for more in ((), ("--op", "softmax", "--op", "rmsnorm"), ("--op", "softmax"), ("--release", "v0.5.0")):
        code, error = drift(pinned, source, *more)
        (line,) = error.splitlines()
        assert code == 2 and words in line
    assert drift(pinned, source, "--op", "rmsnorm") == (0, ""), "the ops that were measured can be asked for alone"


def test_a_drift_that_is_found_in_a_part_stays_one(pinned: Desk) -> None:
    source = night(pinned, first(lambda _: None), factors={2: 1.2})
    code, error = drift(pinned, source)
    assert code == 1 and "1 of 1 row beyond their limit" in error and "only 1 of its 3 rows" in error


def test_an_op_that_was_not_pinned_is_a_remark_and_one_not_measured_is_none(two: Desk) -> None:
    assert two.promote(both(two))[0] == 0
    assert pin(two, "--op", "rmsnorm")[0] == 0
    assert drift(two, night(two)) == (0, "softmax: no release is pinned for this machine\n")
    (two.folder / "night" / "head" / "softmax" / store.RESULTS_FILE).unlink()
    assert drift(two, two.folder / "night") == (0, "")


def test_a_row_that_the_release_has_not_either_lacks_nothing(two: Desk) -> None:
    unsupported = first(own(benchmark_status="unsupported", correct=None, **NO_TIME))
    assert two.promote(both(two, change=unsupported))[0] == 0
    assert pin(two)[0] == 0
    assert drift(two, night(two, unsupported)) == (0, "")
