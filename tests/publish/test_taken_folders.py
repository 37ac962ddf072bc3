"""The folders of `gate artifact take`: what it may clear, what it leaves, what `artifact judge` may repeat of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.commands import judged
from gate.commands.artifact_taken import PLACES
from gate.publish import archive
from tests.analysis import build
from tests.factory import decision_in
from tests.publish.conftest import SHA
from tests.publish.fake import FakeGitHub, Fault
from tests.publish.packed import packed, zipped

LEDGER = build.ledger(1)


def argv(folder: Path, verb: str, **other: str) -> list[str]:
    named = {"out": str(folder / "intake"), "decision": str(folder / "decision"), "run": "11", **other}
    if verb == "judge":
        named = {"from": str(folder / "intake"), "out": str(folder / "decision"), **other}
    return ["artifact", verb, *(word for name, value in named.items() for word in (f"--{name}", value) if value)]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, locks too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def passed(out: Path) -> Path:
    """A passing judgement, none of `take`."""
    decision = build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2))
    assert decision.gate == "pass"
    judged.write(decision, out)
    return out


@pytest.mark.parametrize(
    "name", [".git/HEAD", "notes.txt", "head/notes.txt", "base/sub/benchmark_results.jsonl", "head/.other.jsonl.x"]
)
@pytest.mark.parametrize("locked", [True, False])
def test_a_folder_with_anything_else_than_what_was_taken_is_left_as_it_is(
    github: FakeGitHub, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, locked: bool
) -> None:
    github.add_artifact(11, zipped(packed()))
    store.write_text(tmp_path / "intake" / name, "mine\n")
    store.write_text(tmp_path / "intake" / PLACES["head_results"], "mine\n")
    if locked:
        store.write_text(tmp_path / "intake" / ".lock", "")
    before = contents(tmp_path / "intake")
    assert run(argv(tmp_path, "take")) == 64
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "would be removed; name another --out" in said
    after = contents(tmp_path / "intake")
    assert after.pop(".lock", None) is None or (locked and before.pop(".lock") == b"")
    assert after == before and github.log == []


def test_a_link_is_not_what_was_taken(github: FakeGitHub, tmp_path: Path) -> None:
    store.write_text(tmp_path / "mine" / store.RESULTS_FILE, "mine\n")
    (tmp_path / "intake").mkdir()
    (tmp_path / "intake" / "head").symlink_to(tmp_path / "mine")
    assert run(argv(tmp_path, "take")) == 64
    assert (tmp_path / "intake" / "head").is_symlink()


def test_what_take_itself_left_is_replaced_once_there_is_something_to_put_there(
    github: FakeGitHub, tmp_path: Path
) -> None:
    intake = tmp_path / "intake"
    for place in PLACES.values():
        store.write_text(intake / place, "of an earlier run\n")
    store.write_text(intake / "head" / f".{store.RESULTS_FILE}.cut", "of an earlier run\n")
    before = contents(intake)
    assert run(argv(tmp_path, "take", run="")) == 64
    assert contents(intake) == before
    github.plan = lambda method, path: Fault("502")
    assert run(argv(tmp_path, "take")) == 2
    assert {**contents(intake), ".lock": b""} == {**before, ".lock": b""}
    github.plan = lambda method, path: None
    github.add_artifact(11, zipped(packed()))
    assert run(argv(tmp_path, "take")) == 0
    assert contents(intake).keys() == {".lock", str(PLACES["head_results"]), str(PLACES["base_results"])}
    assert not (tmp_path / "decision" / judged.DECISION_FILE).exists()


def unreachable(github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    github.plan = lambda method, path: Fault("502")


def killed(github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*arguments: object) -> bytes:
        raise KeyboardInterrupt

    github.add_artifact(11, zipped(packed()))
    monkeypatch.setattr(archive, "download", download)


@pytest.mark.parametrize(("fail", "code"), [(unreachable, 2), (killed, 130)])
def test_rows_of_an_earlier_run_are_not_judged_where_none_could_be_taken(
    github: FakeGitHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[[FakeGitHub, pytest.MonkeyPatch], None],
    code: int,
) -> None:
    for side in ("head", "base"):
        rows = build.run(LEDGER, seed=1).outcomes
        store.write_jsonl(tmp_path / "intake" / side / store.RESULTS_FILE, rows)
    passed(tmp_path / "decision")
    fail(github, monkeypatch)
    assert run(argv(tmp_path, "take")) == code
    left = contents(tmp_path / "decision")
    assert decision_in(tmp_path / "decision")["gate"] == "no_verdict"
    assert run(argv(tmp_path, "judge")) == 2
    assert contents(tmp_path / "decision") == left


def test_that_no_kernel_changed_is_repeated(github: FakeGitHub, tmp_path: Path) -> None:
    store.write_text(tmp_path / "intake" / PLACES["head_results"], "of an earlier run\n")
    github.files[SHA] = ["docs/a.md"]
    assert run(argv(tmp_path, "take")) == 0
    assert contents(tmp_path / "intake").keys() == {".lock"}
    left = contents(tmp_path / "decision")
    assert run(argv(tmp_path, "judge")) == 0
    assert contents(tmp_path / "decision") == left
    assert decision_in(tmp_path / "decision")["reasons"] == ["no_kernel_changed"]


@pytest.mark.parametrize("source", ["none", "empty", "locked"])
def test_no_other_verdict_is_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str) -> None:
    (tmp_path / "empty").mkdir()
    store.write_text(tmp_path / "locked" / ".lock", "")
    out = passed(tmp_path / "decision")
    assert run(argv(tmp_path, "judge", **{"from": str(tmp_path / source)})) == 2
    assert "nothing was taken" in capsys.readouterr().err
    assert decision_in(out)["gate"] == "no_verdict"


def test_a_run_keeps_its_verdict(github: FakeGitHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = passed(tmp_path / "decision")
    store.write_text(out / "run.json", '{"kind": "a timed run", "day": "2026-06-01"}\n')
    before = {**contents(out), ".lock": b""}
    github.files[SHA] = ["docs/a.md"]
    for verb in ("take", "judge"):
        assert run(argv(tmp_path, verb)) == 64
        assert "holds a timed run, whose verdict this would replace; name another --out" in capsys.readouterr().err
        assert {**contents(out), ".lock": b""} == before
