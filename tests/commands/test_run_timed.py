"""`gate run --replay` on the simulated GPU: verdicts, confirmation, and what stands beside the times."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gate import store
from gate.cli import run
from tests.commands import timed_rig as rig
from tests.factory import decision_in, make_shape
from tests.needs import needs_flydsl


def test_identical_arms_pass_and_both_questions_are_answered(ledgers: Path, tmp_path: Path) -> None:
    code, stderr = rig.call(rig.arguments(ledgers, tmp_path))
    assert code == 0, stderr
    decision = decision_in(tmp_path)
    assert decision["gate"] == "pass" and decision["kind"] == "timing" and decision["scope"] == ""
    assert decision["counts"]["unchanged"] == decision["counts"]["total"] == 6
    assert decision["geomean"]["vs_base"] == pytest.approx(1.0, abs=0.005)
    assert decision["geomean"]["vs_best"] == pytest.approx(0.9, abs=0.01)
    assert {"comment.md", "status.json", "step_summary.md", "benchmark_summary.md", "coverage_matrix.md"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_suspects_are_confirmed_in_fresh_processes_and_nothing_else_is(slow: Path, ledgers: Path) -> None:
    decision = decision_in(slow)
    marked = {row["shape_id"] for row in decision["rows"] if "steady" not in row["args"]}
    assert {row["shape_id"] for row in decision["rows"] if row["verdict"] == "regressed"} == marked
    again = rig.journal(slow, "confirm")
    assert {record["shape_id"] for record in again} == marked
    assert sorted({record["process"] for record in again if record["shape_id"] in marked})[:3] == [0, 1, 2]
    assert all({name.split("/")[0] for name in record["arms"]} == {"head", "base"} for record in again)
    first = {record["shape_id"]: record for record in rig.journal(slow, "replay") if record["process"] == 0}
    assert all(len(first[one]["arms"]["head/flydsl"]["visits"]) == 4 for one in marked)


def test_the_rows_alone_give_the_same_decision(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    argv = ["judge", "--ledger", str(ledgers), "--matrix", str(ledgers), "--out", str(tmp_path)]
    argv += ["--base", str(slow / "base_results"), "--head", str(slow / "results")]
    argv += [
        "--op-from",
        f"{rig.KERNELS}:OP",
        "--confirm",
        str(slow / "confirm" / "base"),
        str(slow / "confirm" / "head"),
    ]
    assert run(argv) == 1
    assert (tmp_path / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()


def test_the_times_of_an_arm_that_both_sides_share_judge_no_candidate(
    slow: Path, ledgers: Path, tmp_path: Path
) -> None:
    argv = ["judge", "--ledger", str(ledgers), "--matrix", str(ledgers), "--out", str(tmp_path)]
    argv += ["--base", str(slow / "base_results"), "--head", str(slow / "results"), "--op-from", f"{rig.KERNELS}:OP"]
    assert run([*argv, "--candidate", "triton"]) == 2
    found = decision_in(tmp_path)
    assert found["gate"] == "no_verdict"
    assert {(row["verdict"], *row["reasons"]) for row in found["rows"]} == {("not_comparable", "shared_arm")}


def test_a_list_of_shapes_is_read_from_a_file(ledgers: Path, tmp_path: Path) -> None:
    wanted = [row["shape_id"] for row in store_rows(ledgers / "rmsnorm")][:2]
    (tmp_path / "shapes_to_run.txt").write_text("".join(f"{one}\n" for one in wanted))
    more = ("--shapes-from", str(tmp_path / "shapes_to_run.txt"))
    assert rig.call(rig.arguments(ledgers, tmp_path / "out", *more))[0] == 0
    decision = decision_in(tmp_path / "out")
    assert [row["shape_id"] for row in decision["rows"]] == wanted
    assert decision["scope"] == "2 of 6 frozen shapes (rmsnorm); 1 other op is not part of this run"
    (tmp_path / "none.txt").write_text("")
    code, stderr = rig.call(rig.arguments(ledgers, tmp_path / "o", "--shapes-from", str(tmp_path / "none.txt")))
    assert code == 2 and "names no shape" in stderr


def store_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / store.LEDGER_FILE).read_text().splitlines()]


def test_a_head_alone_tells_its_standing_and_is_no_verdict(ledgers: Path, tmp_path: Path) -> None:
    code, stderr = rig.call(rig.arguments(ledgers, tmp_path, base=None))
    assert code == 2, stderr
    decision = decision_in(tmp_path)
    assert decision["reasons"][0] == "first_run" and decision["geomean"]["vs_best"] == pytest.approx(0.9, abs=0.01)
    assert not (tmp_path / "base_results").exists()


def test_a_machine_that_drifts_is_no_verdict(ledgers: Path, tmp_path: Path) -> None:
    sim = f"{rig.SIM},drift=0.05,drift_after=3"
    code, _ = rig.call(rig.arguments(ledgers, tmp_path, sim=sim))
    assert code == 2
    decision = decision_in(tmp_path)
    assert decision["gate"] == "no_verdict" and "the machine changed under the session" in decision["summary"]


def test_a_decision_is_posted_when_asked(
    ledgers: Path, slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("github", reason="posting needs PyGithub: pip install 'flydsl-gate[publish]'")
    pytest.importorskip("githubkit", reason="the fake needs GitHub's own schema: pip install 'flydsl-gate[dev]'")
    from tests.publish.conftest import environment
    from tests.publish.fake import Token, running

    out, sha = tmp_path / "out", "a" * 40
    shutil.copytree(slow, out)
    with running() as fake:
        environment(fake, monkeypatch)
        fake.tokens = {"t": Token()}
        fake.add_pull(7, sha)
        argv = [*rig.arguments(ledgers, out, head=rig.SLOW), "--resume", "--publish", "--pr", "7", "--sha", sha]
        assert run(argv) == 1
        assert [one["state"] for one in fake.statuses] == ["failure"]
        (body,) = fake.ours(7)
        assert "verdict=block" in body and fake.violations == []
        # A repository that does not let it post: the verdict stands, and is not green.
        fake.tokens = {"t": Token(scopes={})}
        assert run(argv) == 1


@needs_flydsl
def test_machine_code_is_evidence_beside_the_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(rig.ROOT))
    shape = make_shape(op_type="vec_add", dtype="f32", args={"N": 4096, "M": 4})
    root = rig.write_ledgers(tmp_path / "ledgers", {"vec_add": [shape]})
    assert run(["codegen", "record", "--as-baseline", str(root), "--ledgers", str(root)]) == 0
    assert run(["ledger", "freeze", str(root)]) == 0
    argv = [word for word in rig.arguments(root, tmp_path / "out") if word != "--no-code"]
    path = f"path={rig.ROOT},"
    code, stderr = rig.call([word.replace(path, "") for word in argv])
    assert code == 0, stderr
    (row,) = decision_in(tmp_path / "out")["rows"]
    assert row["ratio"] == pytest.approx(1.0, abs=0.01)
    assert row["code"]["verdict"] == "same" and row["code"]["head"]["instructions"] > 0
    # A flydsl on a path is not the one that would compile.
    code, stderr = rig.call([word.replace(str(tmp_path / "out"), str(tmp_path / "other")) for word in argv])
    assert code == 0 and "no machine code beside the times: the flydsl that is timed lies on a path" in stderr
    assert decision_in(tmp_path / "other")["rows"][0]["code"] is None
