"""`gate profile`: a script that runs alone, a stand-in for rocprofv3 around it, existing traces, and a decision."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.model.decision import Coverage, Decision, Environment, Geomean, RowFinding
from gate.model.diagnosis import Diagnosis, ProfileChoice
from gate.schemas.check import check
from tests.profiling.traces import AGENTS, as_csv, row
from tests.replay import rig

# Runs what follows `--`, then writes a trace of 3 setup dispatches and as many calls as the script made.
STAND_IN = """#!{python}
import json, os, subprocess, sys
if "--version" in sys.argv:
    print("    version: 1.0.0")
    sys.exit(0)
assert "--kernel-trace" in sys.argv
options, program = sys.argv[: sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
folder = options[options.index("--output-directory") + 1]
done = subprocess.run(program, capture_output=True, text=True)
sys.stdout.write(done.stdout)
sys.stderr.write(done.stderr)
if done.returncode == 0:
    facts = json.loads(done.stdout.split("gate-repro ")[1])
    sys.path.insert(0, {root!r})
    from tests.profiling.traces import AGENTS, as_csv, row
    names = ["fill"] * 3 + ["kernel_0"] * (facts["calls"] + facts["warmup"])
    rows = [row(i, name, 5.0 + i % 2) for i, name in enumerate(names)]
    open(os.path.join(folder, "trace_kernel_trace.csv"), "w").write(as_csv(rows))
    open(os.path.join(folder, "trace_agent_info.csv"), "w").write(AGENTS)
sys.exit(done.returncode)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with a stand-in for rocprofv3."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "rocprofv3"
    program.write_text(STAND_IN.format(python=sys.executable, root=str(rig.ROOT)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return program


def arguments(folder: Path, *more: str, out: str = "out") -> list[str]:
    files = ["--ledger", str(folder / "shape_ledger.jsonl"), "--matrix", str(folder / "baseline_matrix.yaml")]
    fixed = ["--op-from", f"{rig.KERNELS}:OP", "--simulate", rig.SIM, "--head", f"path={rig.ROOT}"]
    return ["profile", *files, *fixed, "--out", str(folder / out), *more]


def profiled(folder: Path, *more: str, candidate: str = "good", **shape: Any) -> int:
    shapes = rig.shapes(1, **shape)
    rig.write_inputs(folder, ledger=shapes, candidate=candidate)
    return run(arguments(folder, "--op", "rmsnorm", "--shape", shapes[0].shape_id, *more))


def diagnosis(folder: Path) -> Diagnosis:
    return msgspec.json.decode((folder / "diagnosis.json").read_bytes(), type=Diagnosis)


def test_one_kernel_from_script_to_diagnosis(tmp_path: Path, tool: Path) -> None:
    assert profiled(tmp_path, "--calls", "6", "--warmup", "2") == 0
    found = diagnosis(tmp_path / "out")
    assert (found.provider, found.op_type, found.tool) == ("flydsl", "rmsnorm", "rocprofv3")
    assert (found.calls, found.warmup_calls, found.dispatches) == (6, 2, 11)
    assert found.kernels[0].count == 6
    assert "version" in found.tool_version
    assert {"script", "stdout", "stderr", "kernels", "agents"} <= set(found.files)
    assert all((tmp_path / "out" / name).is_file() for name in found.files.values())
    data = (tmp_path / "out" / "diagnosis.json").read_bytes()
    assert check("diagnosis", file="diagnosis.json", data=data).problems == ()


def test_the_arms_commit_is_the_diagnosis_commit(tmp_path: Path, tool: Path) -> None:
    assert profiled(tmp_path, "--head", f"path={rig.ROOT},commit=c0ffee1") == 0
    assert diagnosis(tmp_path / "out").commit == "c0ffee1"


def test_the_script_runs_alone_with_the_same_interpreter(tmp_path: Path, tool: Path) -> None:
    profiled(tmp_path)
    script = tmp_path / "out" / "repro.py"
    environment = {"PYTHONPATH": str(rig.ROOT), "PATH": os.environ["PATH"]}
    command = [sys.executable, script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.removeprefix("gate-repro "))
    assert (facts["calls"], facts["warmup"], facts["gpu"]) == (20, 5, "simulated")
    assert f"env PYTHONPATH={rig.ROOT} {sys.executable} repro.py" in script.read_text().replace(":\n", "\n")


@pytest.mark.parametrize(
    ("candidate", "told"),
    [("raises", "exited with code 1: ValueError: tile does not divide N"), ("segfault", "profiled program")],
)
def test_a_kernel_that_breaks_is_one_line_and_its_output_is_kept(
    tmp_path: Path, tool: Path, capsys: pytest.CaptureFixture[str], candidate: str, told: str
) -> None:
    assert profiled(tmp_path, candidate=candidate, breaks=True) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert (tmp_path / "out" / "stderr.txt").exists()


def test_a_kernel_that_hangs_is_ended(tmp_path: Path, tool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profiled(tmp_path, "--timeout", "2", candidate="hangs", breaks=True) == 2
    assert "ran past 2 s and was ended" in capsys.readouterr().err


@pytest.mark.parametrize("wanted", ["auto", "torch"])
def test_a_simulated_gpu_is_not_called_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wanted: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("gate.profiling.tools.ROCM_BIN", tmp_path)
    assert profiled(tmp_path, "--tool", wanted) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "on the simulated GPU no profiler sees a kernel; profile on a machine with a GPU without --simulate" in line


def test_a_missing_tool_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert profiled(tmp_path, "--tool", "rocprof") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "there is no rocprofv3 on this machine" in line and "rocprofiler-sdk" in line


def test_a_tool_that_cannot_be_started_is_named_with_the_reason(
    tmp_path: Path, tool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.write_text("#!/nowhere/python3\n")
    assert profiled(tmp_path) == 2
    assert f"{tool}: the program cannot be started: its first line names /nowhere/python3" in capsys.readouterr().err


def test_existing_traces_one_diagnosis_each(tmp_path: Path) -> None:
    (source := tmp_path / "traces").mkdir()
    for pid in (11, 12):
        rows = [row(index, "rmsnorm_0", pid + index) for index in range(4)]
        (source / f"{pid}_kernel_trace.csv").write_text(as_csv(rows))
    (source / "11_agent_info.csv").write_text(AGENTS)
    assert run(["profile", "--from", str(source), "--out", str(tmp_path / "out")]) == 0
    first, second = (diagnosis(tmp_path / "out" / name) for name in ("11", "12"))
    assert (first.kernels[0].durations.median_us, second.kernels[0].durations.median_us) == (12.5, 13.5)
    assert first.arch == second.arch == "gfx950"
    assert any("another run's, 11_agent_info.csv" in note for note in second.notes)
    assert (tmp_path / "out" / "12" / "12_kernel_trace.csv").is_file()


def test_a_trace_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x_kernel_trace.csv").write_text("")
    assert run(["profile", "--from", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "the file is empty" in capsys.readouterr().err
    assert run(["profile", "--from", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 2
    assert "there is nothing here" in capsys.readouterr().err


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "--out", str(tmp_path)]) == 64
    assert run(["profile", "--decision", str(tmp_path), "--op", "rmsnorm", "--out", str(tmp_path)]) == 64
    assert profiled(tmp_path, "--provider", "ck") == 64
    assert "no such kernel" in capsys.readouterr().err


def finding(shape_id: str, **more: Any) -> RowFinding:
    fixed: dict[str, Any] = {
        "shape_id": shape_id,
        "provider": "flydsl",
        "verdict": "unchanged",
        "reasons": (),
        "op_type": "rmsnorm",
        "model": "m",
        "stage": "decode",
        "dtype": "fp32",
        "args": {},
        "hot": True,
        "head_us": 10.0,
        "speedup_vs_best": 0.8,
        "best_baseline": "triton",
        "status": "ok",
        "profile": True,
    }
    return RowFinding(**{**fixed, **more})


def decision(*rows: RowFinding) -> Decision:
    return Decision(
        gate="pass",
        decision="tune_needed",
        headline="tune",
        reasons=(),
        summary="",
        next_step="",
        kind="timing",
        counts={},
        coverage=Coverage(required=1, judged=1, measured=1, share=1.0, required_share=0.9),
        geomean=Geomean(),
        rows=rows,
        environment=Environment(base={}, head={}),
    )


def choices(folder: Path) -> list[ProfileChoice]:
    return msgspec.json.Decoder(ProfileChoice).decode_lines((folder / "profile_choices.jsonl").read_bytes())


def test_a_decision_names_what_is_profiled_and_why_the_rest_is_not(tmp_path: Path, tool: Path) -> None:
    shapes = rig.shapes(5)
    rig.write_inputs(tmp_path, ledger=shapes)
    ids = [shape.shape_id for shape in shapes]
    rows = (
        finding(ids[0]),
        finding(ids[1], speedup_vs_best=0.97, profile=False),
        finding(ids[2], hot=False, profile=False, stage="synthetic"),
        finding(ids[3], profile=False),
        finding(ids[4], speedup_vs_best=0.85),
    )
    store.write_json(tmp_path / "decision.json", decision(*rows))
    assert run(arguments(tmp_path, "--decision", str(tmp_path), "--limit", "1")) == 0
    found = choices(tmp_path / "out")
    assert [one.profile for one in found] == [True, False, False, False, False]
    assert diagnosis(tmp_path / "out" / Path(found[0].diagnosis).parent).shape_id == ids[0]
    reasons = [one.reason for one in found]
    assert "hot, 0.800 of triton's speed" in reasons[0]
    assert "0.970 of triton's speed is not below 0.90" in reasons[1]
    assert "not hot" in reasons[2] and "unstable" in reasons[3] and "further behind" in reasons[4]


def test_without_a_tool_the_deferral_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    shapes = rig.shapes(1)
    rig.write_inputs(tmp_path, ledger=shapes)
    store.write_json(tmp_path / "decision.json", decision(finding(shapes[0].shape_id)))
    assert run(arguments(tmp_path, "--decision", str(tmp_path), "--tool", "rocprof")) == 0
    assert "deferred: there is no rocprofv3" in choices(tmp_path / "out")[0].reason
