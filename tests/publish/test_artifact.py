"""From an artifact to a verdict: which artifact is taken, how, and what its absence means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.publish import archive, bundle
from gate.publish.archive import NotTaken
from gate.resources import frozen_ledgers_dir
from tests.factory import decision_in
from tests.publish.conftest import SHA
from tests.publish.fake import FakeGitHub, Fault
from tests.publish.packed import SHAPES, packed, rows_of, zipped


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    """A frozen ledger of three shapes whose matrix has the candidate and one baseline."""
    root = tmp_path / "ledgers"
    store.write_jsonl(root / "rmsnorm" / store.LEDGER_FILE, SHAPES)
    text = (frozen_ledgers_dir() / "rmsnorm" / store.MATRIX_FILE).read_text()
    store.write_text(root / "rmsnorm" / store.MATRIX_FILE, text)
    assert run(["ledger", "freeze", str(root)]) == 0
    return root


Take = Callable[..., int]


@pytest.fixture
def take(github: FakeGitHub, tmp_path: Path) -> Take:
    def call(*more: str) -> int:
        out, decision = str(tmp_path / "intake"), str(tmp_path / "decision")
        return run(["artifact", "take", "--run", "11", "--out", out, "--decision", decision, *more])

    return call


def judged(tmp_path: Path, ledgers: Path) -> int:
    """`gate artifact judge` of what was taken in."""
    argv = ["--from", str(tmp_path / "intake"), "--ledgers", str(ledgers), "--out", str(tmp_path / "decision")]
    return run(["artifact", "judge", *argv])


@pytest.mark.parametrize(("head_us", "code", "state"), [(10.0, 0, "success"), (13.0, 1, "failure")])
def test_from_artifact_to_comment(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path, head_us: float, code: int, state: str
) -> None:
    github.add_artifact(11, zipped(packed(head_us=head_us)))
    assert take() == 0
    assert judged(tmp_path, ledgers) == code, decision_in(tmp_path / "decision")
    assert run(["publish", "--from", str(tmp_path / "decision"), "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None and found["state"] == state
    assert len(github.ours(7)) == code, "rows within noise make no comment"


def test_the_printed_command_names_the_ledgers_that_the_trusted_side_judged_by(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path
) -> None:
    github.add_artifact(11, zipped(packed(head_us=13.0)))
    assert take() == 0 and judged(tmp_path, ledgers) == 1
    lines = [one["line"] for one in decision_in(tmp_path / "decision")["commands"]]
    assert lines and all(' --ledgers "$LEDGERS" ' in line for line in lines)


def test_one_process_takes_in_at_a_time(
    github: FakeGitHub, take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    github.add_artifact(11, zipped(packed()))
    out = tmp_path / "intake"
    store.write_text(out / "confirm" / "head" / store.RESULTS_FILE, "of an earlier run\n")
    codes, download = [], archive.download

    def beside(*arguments: Any) -> Any:
        argv = ["artifact", "take", "--run", "11", "--out", str(out), "--decision", str(tmp_path / "other")]
        codes.append(run(argv))
        return download(*arguments)

    monkeypatch.setattr(archive, "download", beside)
    assert take() == 0
    assert codes == [2] and not (tmp_path / "other" / "decision.json").exists()
    refused, _ = capsys.readouterr().err.splitlines()
    assert refused == f"gate: {out}: another gate writes here; wait for it or name another folder"
    assert sorted(path.name for path in out.iterdir()) == [".lock", "base", "head"]


@pytest.mark.parametrize("decision", ["intake", "intake/decision"])
def test_a_decision_in_the_folder_that_is_cleared_is_refused(
    github: FakeGitHub, take: Take, tmp_path: Path, capsys: pytest.CaptureFixture[str], decision: str
) -> None:
    assert take("--decision", str(tmp_path / decision)) == 64
    assert "--decision lies in --out, which is cleared; name another --decision" in capsys.readouterr().err
    assert not (tmp_path / "intake").exists() and github.log == []


def test_the_link_is_taken_without_the_token(github: FakeGitHub, take: Take) -> None:
    github.add_artifact(11, zipped(packed()))
    assert take() == 0
    assert github.blob_authorizations == [None]


@pytest.mark.parametrize("kind", ["502", "429", "drop"])
def test_a_fault_on_the_way_is_tried_again(github: FakeGitHub, take: Take, kind: str) -> None:
    github.add_artifact(11, zipped(packed()))
    left = [Fault(kind)]
    github.plan = lambda method, path: left.pop() if left and path.endswith("/zip") else None
    assert take() == 0
    assert left == [] and github.blob_authorizations == [None]


def entries() -> list[tuple[str, Callable[[FakeGitHub], None], str]]:
    good = zipped(packed())
    return [
        ("none", lambda g: None, "has no artifact"),
        ("another name", lambda g: g.add_artifact(11, good, name="flydsl-gate-results-2") and None, "has no artifact"),
        ("another run", lambda g: g.add_artifact(12, good) and None, "has no artifact"),
        ("expired", lambda g: g.add_artifact(11, good, expired=True) and None, "has expired"),
        ("two", lambda g: [g.add_artifact(11, good) for _ in range(2)] and None, "2 artifacts"),
        ("huge", lambda g: g.add_artifact(11, good, size_in_bytes=1 << 40) and None, "bytes; at most"),
        ("empty", lambda g: g.add_artifact(11, good, size_in_bytes=0) and None, "bytes; at most"),
    ]


@pytest.mark.parametrize(("name", "arrange", "words"), entries())
def test_only_one_unexpired_artifact_of_the_name_and_size(
    github: FakeGitHub, take: Take, tmp_path: Path, name: str, arrange: Callable[[FakeGitHub], None], words: str
) -> None:
    arrange(github)
    assert take() == 2
    found = decision_in(tmp_path / "decision")
    assert found["gate"] == "no_verdict" and words in " ".join(found["problems"])
    assert [path.name for path in (tmp_path / "intake").iterdir()] == [".lock"]
    assert github.blob_authorizations == [], "nothing is downloaded"


def test_more_bytes_than_the_listing_said_are_not_read(github: FakeGitHub, take: Take, tmp_path: Path) -> None:
    data = zipped(b"", name=archive.MEMBER, padding=bytes(range(256)) * 4 * 40_000)
    assert len(archive._capped(iter([b"x" * 10]), 10)) == 10
    with pytest.raises(NotTaken, match="whatever the listing says"):
        archive._capped(iter([data, data]), len(data))


def test_every_page_of_artifacts_is_read(github: FakeGitHub, take: Take) -> None:
    for number in range(130):
        github.add_artifact(11, b"x", name=f"log-{number}")
    github.add_artifact(11, zipped(packed()))
    assert take() == 0
    assert github.blob_authorizations == [None]


@pytest.mark.parametrize(
    ("files", "code"),
    [(["docs/a.md", "README.md"], 0), (["docs/a.md", "kernels/x.py"], 2), ([], 2), (["a.md"] * 300, 2)],
)
def test_only_githubs_own_list_of_files_makes_a_run_without_results_a_pass(
    github: FakeGitHub, take: Take, tmp_path: Path, files: list[str], code: int
) -> None:
    github.files[SHA] = files
    assert take() == code
    assert run(["publish", "--from", str(tmp_path / "decision"), "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None
    assert found["state"] == ("success" if code == 0 else "error")
    assert (found["description"] == "no kernel changed") == (code == 0)


def test_a_failed_run_without_results_is_an_error_whatever_it_changed(
    github: FakeGitHub, take: Take, tmp_path: Path
) -> None:
    github.files[SHA] = ["docs/a.md"]
    github.runs[11, 1]["conclusion"] = "failure"
    assert take() == 2
    assert run(["publish", "--from", str(tmp_path / "decision"), "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None and found["state"] == "error"


@pytest.mark.parametrize(("bad", "words"), [(0.0, "invalid"), (-3.0, "invalid")])
def test_a_time_that_is_none_is_never_green(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path, bad: float, words: str
) -> None:
    rows = {"base_results": rows_of(bad), "head_results": rows_of(10.0)}
    github.add_artifact(11, zipped(bundle.encode(rows, head_sha=SHA, base_sha="b" * 40)))
    assert take() == 0
    assert judged(tmp_path, ledgers) == 2
    assert run(["publish", "--from", str(tmp_path / "decision"), "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None and found["state"] == "error"


def test_a_shape_that_the_run_left_out_is_missing(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path
) -> None:
    rows = {"base_results": rows_of(10.0), "head_results": rows_of(10.0)[2:]}
    github.add_artifact(11, zipped(bundle.encode(rows, head_sha=SHA, base_sha="b" * 40)))
    assert take() == 0
    assert judged(tmp_path, ledgers) == 2
    assert decision_in(tmp_path / "decision")["counts"]["missing"] == 1


def test_nothing_measured_and_nothing_compiled_is_no_verdict(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path
) -> None:
    github.add_artifact(11, zipped(bundle.encode({}, head_sha=SHA, base_sha=None)))
    assert take() == 0
    assert judged(tmp_path, ledgers) == 2
    assert decision_in(tmp_path / "decision")["gate"] == "no_verdict"


def test_a_confirming_session_beside_stored_times_is_no_verdict(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"confirm_base": rows_of(10.0), "confirm_head": rows_of(13.0)}
    for part, again in (("base_results", "confirm_base"), ("head_results", "confirm_head")):
        rows[part] = [msgspec.structs.replace(row, blocks_us=None) for row in rows[again]]
    github.add_artifact(11, zipped(bundle.encode(rows, head_sha=SHA, base_sha="b" * 40)))
    assert take() == 0
    assert judged(tmp_path, ledgers) == 2
    assert "none has here; judge its results alone" in capsys.readouterr().err
    assert decision_in(tmp_path / "decision")["reasons"] == ["unusable_input"]


@pytest.mark.parametrize(("verdict", "head", "gate"), [("fail", None, "no_verdict"), ("same", "side", "pass")])
def test_a_kernel_that_does_not_compile_cannot_pass_on_time(verdict: str, head: str | None, gate: str) -> None:
    from gate.commands.artifact_judge import uncontradicted
    from gate.model.decision import CodeEvidence
    from tests.render.examples import decision, row, side

    there = side(10, 100, 8)
    code = CodeEvidence(compile_key="k", verdict=verdict, base=there, head=there if head else None)
    assert uncontradicted(decision([row(0, code=code)])).gate == gate
