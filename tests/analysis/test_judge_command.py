"""`gate judge` and `gate policy` as a person or a workflow calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gate import store
from gate.cli import run
from tests.analysis import build
from tests.factory import decision_in

LEDGER = build.ledger()


def lay_out(folder: Path, **replaced: str) -> list[str]:
    """The files of a clean judgement in `folder` and the command line for them."""
    shown = msgspec.to_builtins(build.matrix())
    texts = {
        "shape_ledger.jsonl": lines(LEDGER.shapes),
        "baseline_matrix.yaml": yaml.safe_dump(shown),
        "base.jsonl": lines(build.run(LEDGER, seed=1).outcomes),
        "head.jsonl": lines(build.run(LEDGER, seed=2).outcomes),
        **replaced,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = ["judge", "--out", str(folder / "out"), "--today", "2026-06-01"]
    for option, name in (("ledger", "shape_ledger.jsonl"), ("matrix", "baseline_matrix.yaml")):
        command += [f"--{option}", str(folder / name)]
    return [*command, "--base", str(folder / "base.jsonl"), "--head", str(folder / "head.jsonl")]


def lines(records: Any) -> str:
    return "".join(store.encode(record).decode() + "\n" for record in records)


def test_a_clean_judgement_writes_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lay_out(tmp_path)) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".lock", "comment.md", "decision.json", "regression_summary.md", "regressions.jsonl", "status.json",
        "step_summary.md",
    ]  # fmt: skip
    assert decision_in(tmp_path / "out")["gate"] == "pass"
    assert "PASS" in capsys.readouterr().out


def test_regressions_are_listed_worst_first(tmp_path: Path) -> None:
    head = build.run(LEDGER, seed=2, factors={1: 1.5, 3: 3.0, 5: 2.0})
    broken = build.edit(head, 7, LEDGER, benchmark_status="failed", median_us=None, blocks_us=None)
    assert run(lay_out(tmp_path, **{"head.jsonl": lines(broken.outcomes)})) == 1
    listed = [json.loads(line) for line in (tmp_path / "out" / "regressions.jsonl").read_text().splitlines()]
    order = [LEDGER.shapes[index].shape_id for index in (7, 3, 5, 1)]
    assert [row["shape_id"] for row in listed] == order


def test_twice_the_same_bytes_wherever_the_files_lie(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        run(lay_out(tmp_path / name, **{"head.jsonl": lines(build.run(LEDGER, seed=2).outcomes) + "{cut"}))
    first, second = ((tmp_path / name / "out" / "decision.json").read_bytes() for name in ("one", "two"))
    assert first == second


UNUSABLE: list[tuple[dict[str, str], str]] = [
    ({"shape_ledger.jsonl": ""}, "the ledger holds no shape"),
    ({"baseline_matrix.yaml": "kernel: [\n"}, "not valid YAML"),
    ({"baseline_matrix.yaml": "kernel: rmsnorm\n"}, "not a baseline matrix"),
]


@pytest.mark.parametrize(("replaced", "message"), UNUSABLE)
def test_an_unusable_input_still_leaves_a_decision(
    replaced: dict[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(lay_out(tmp_path, **replaced)) == 2
    found = decision_in(tmp_path / "out")
    assert (found["gate"], found["decision"], found["reasons"]) == ("no_verdict", "blocked", ["unusable_input"])
    assert message in found["problems"][0]
    assert str(tmp_path) not in found["problems"][0]
    assert (tmp_path / "out" / "comment.md").exists()
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_wrong_policy_refuses_to_run_and_names_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.toml").write_text("[ceilingz]\nslower = 1.05\n")
    assert run([*lay_out(tmp_path), "--policy", str(tmp_path / "policy.toml")]) == 2
    assert "unknown key ceilingz; did you mean ceilings?" in capsys.readouterr().err
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"


def test_missing_options_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", "--ledger", "x"]) == 64
    assert capsys.readouterr().err == "gate judge: Missing option '--matrix'; see 'gate judge --help'\n"


BAD_LINES = [
    '{"shape_id": NaN}',
    '{"us_median": 3, "status": "ok"}',
    '{"half": ',
    "[]",
    '"text"',
    '{"median_us": 1e400}',
]


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_refused_with_its_number_and_the_rest_is_judged(line: str, tmp_path: Path) -> None:
    head = lines(build.run(LEDGER, seed=2).outcomes)
    assert run(lay_out(tmp_path, **{"head.jsonl": head + line + "\n"})) == 2
    found = decision_in(tmp_path / "out")
    assert found["counts"]["unchanged"] == 8
    assert found["problems"][0].startswith("head head.jsonl:33: ")


@pytest.mark.parametrize("time", ["NaN", "Infinity", "1e400"])
def test_a_time_that_json_cannot_hold_names_its_row(time: str, tmp_path: Path) -> None:
    rows = [store.encode(row).decode() for row in build.run(LEDGER, seed=2).outcomes]
    row = json.loads(rows[16])
    rows[16] = json.dumps(row | {"median_us": "@"}).replace('"@"', time)
    assert run(lay_out(tmp_path, **{"head.jsonl": "\n".join(rows)})) == 2
    found = decision_in(tmp_path / "out")["rows"][4]
    assert (found["verdict"], found["reasons"]) == ("not_comparable", ["refused"])


def test_folders_hold_one_op_each(tmp_path: Path) -> None:
    ops = ("rmsnorm", "softmax")
    for op in ops:
        ledger = build.ledger(3, op_type=op)
        for part, side in (("ledgers", None), ("base", 1), ("head", 2)):
            folder = tmp_path / part / op
            folder.mkdir(parents=True)
            if side is None:
                (folder / "shape_ledger.jsonl").write_text(lines(ledger.shapes))
                (folder / "baseline_matrix.yaml").write_text(yaml.safe_dump(msgspec.to_builtins(build.matrix(op))))
            else:
                (folder / "benchmark_results.jsonl").write_text(lines(build.run(ledger, seed=side).outcomes))
    given = {"ledger": "ledgers", "matrix": "ledgers", "base": "base", "head": "head", "out": "out"}
    command = [part for option, name in given.items() for part in (f"--{option}", str(tmp_path / name))]
    assert run(["judge", *command, "--json"]) == 0
    assert {row["op_type"] for row in decision_in(tmp_path / "out")["rows"]} == set(ops)


def test_base_may_be_a_folder_of_frozen_ledgers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = lay_out(tmp_path)
    frozen = tmp_path / "frozen" / "rmsnorm" / "baselines" / "MI350X" / "benchmark_results.jsonl"
    frozen.parent.mkdir(parents=True)
    frozen.write_text((tmp_path / "base.jsonl").read_text())
    command[command.index("--base") + 1] = str(tmp_path / "frozen")
    assert run(command) == 0
    other = tmp_path / "frozen" / "rmsnorm" / "baselines" / "H200" / "benchmark_results.jsonl"
    other.parent.mkdir()
    other.write_text("")
    assert run(command) == 2
    assert "several baselines of rmsnorm" in capsys.readouterr().err


def test_base_may_be_the_frozen_folder_of_one_op(tmp_path: Path) -> None:
    command = frozen(tmp_path, "MI350X")
    command[command.index("--base") + 1] = str(tmp_path / "frozen" / "rmsnorm")
    assert run(command) == 0
    assert run([*command, "--arch", "MI350X"]) == 0


def test_policy_and_waivers_beside_the_ledger_are_taken_as_a_run_takes_them(tmp_path: Path) -> None:
    command = lay_out(tmp_path, **{"head.jsonl": lines(build.run(LEDGER, seed=2, factors={1: 1.5}).outcomes)})
    (tmp_path / "policy.toml").write_text("[ceilings.ops]\nrmsnorm = 1.0\n")
    assert run(command) == 0
    assert decision_in(tmp_path / "out")["policy"]["ceilings"]["ops"] == {"rmsnorm": 1.0}
    (tmp_path / "mine.toml").write_text("")
    assert run([*command, "--policy", str(tmp_path / "mine.toml")]) == 1
    (tmp_path / "policy.toml").unlink()
    waiver = f'[[waiver]]\nshape_id = "{LEDGER.shapes[1].shape_id}"\nprovider = "flydsl"\nmax_ratio = 2.0\n'
    waiver += 'expires = 2026-12-31\nreason = "known"\nissue = "https://example.com/1"\n'
    (tmp_path / "waivers.toml").write_text(waiver)
    assert run(command) == 0
    assert decision_in(tmp_path / "out")["counts"]["waived"] == 1


def frozen(folder: Path, *arches: str) -> list[str]:
    """The command line of a judgement whose base is a folder of frozen ledgers with baselines of these GPUs."""
    command = lay_out(folder)
    for arch in arches:
        place = folder / "frozen" / "rmsnorm" / "baselines" / arch
        place.mkdir(parents=True)
        (place / "benchmark_results.jsonl").write_text((folder / "base.jsonl").read_text())
    command[command.index("--base") + 1] = str(folder / "frozen")
    return command


def test_one_of_several_baselines_is_chosen_by_arch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = frozen(tmp_path, "gfx942", "gfx950")
    assert run(command) == 2
    told = capsys.readouterr().err
    assert "several baselines of rmsnorm: gfx942, gfx950; name the one that head ran on with --arch" in told
    assert run([*command, "--arch", "gfx950"]) == 0
    assert run([*command, "--arch", "gfx90a"]) == 2
    assert "no benchmark_results.jsonl of gfx90a in this folder; there are gfx942, gfx950" in capsys.readouterr().err


NO_BLOCKS = "has 4 blocks of base and of head"
STORED = "settles only rows whose base and head have blocks of one session; none has here"


@pytest.mark.parametrize(("judged", "again", "words"), [(None, 8, STORED), (3, 8, STORED), (8, None, NO_BLOCKS)])
def test_a_confirming_session_that_can_settle_nothing_is_told(
    judged: int | None, again: int | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = {1: 1.2}
    text = {"base.jsonl": lines(build.run(LEDGER, seed=1, k=judged).outcomes)}
    text["head.jsonl"] = lines(build.run(LEDGER, seed=2, k=judged, factors=slow).outcomes)
    command = [*lay_out(tmp_path, **text), "--confirm"]
    for side, seed in (("base", 3), ("head", 4)):
        (tmp_path / f"again_{side}.jsonl").write_text(lines(build.run(LEDGER, seed=seed, k=again).outcomes))
        command.append(str(tmp_path / f"again_{side}.jsonl"))
    assert run(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert decision_in(tmp_path / "out")["reasons"] == ["unusable_input"]


@pytest.mark.parametrize("wrong", [["--hed", "x"], ["--today", "yesterday"]])
@pytest.mark.parametrize("joined", [True, False])
def test_wrong_usage_leaves_no_earlier_verdict(tmp_path: Path, wrong: list[str], joined: bool) -> None:
    command = lay_out(tmp_path)
    assert run(command) == 0
    if joined:
        at = command.index("--out")
        command[at : at + 2] = [f"--out={command[at + 1]}"]
    assert run([*command, *wrong]) == 64
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


def test_policy_explain_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.toml").write_text("[thresholds]\nslower = 0.02\n")
    assert run(["policy", "explain", "--policy", str(tmp_path / "policy.toml")]) == 0
    shown = capsys.readouterr().out
    assert "thresholds.slower = 0.02   (default 0.01)" in shown
    assert "confirm.alpha = 0.002\n" in shown
    assert run(["policy", "check", "--policy", str(tmp_path / "policy.toml")]) == 0
    assert run(["policy", "check"]) == 64
