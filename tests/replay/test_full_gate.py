"""The bench of the whole gate, as far as it goes without a GPU: its ledgers, the usual methods, what it keeps."""

from __future__ import annotations

import argparse
import gzip
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gate import store
from gate.cli import run
from gate.replay.link import WorkerDied
from gate.resources import frozen_ledgers_dir
from tests.bench import full_gate, gate_told, run_kills, usual_methods
from tests.factory import make_shape

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "a" * 40
SIM = "memory=64,l2=0.05,noise=0.002"


def options(**given: Any) -> argparse.Namespace:
    common = {"simulate": None, "providers": "pytorch", "real": False, "op": ["rmsnorm", "gemm"], "shapes": 0}
    return argparse.Namespace(**{**common, **given})


def entrypoints(plan: full_gate.Plan, op: str) -> dict[str, str]:
    matrix = store.read_matrix(plan.ledgers / op / store.MATRIX_FILE)
    return {name: entry.entrypoint for name, entry in matrix.providers.items() if entry.enabled}


def test_the_dial_stands_in_tritons_place(tmp_path: Path) -> None:
    plan = full_gate.make_plan(tmp_path, options(shapes=20), random.Random(1))
    assert entrypoints(plan, "gemm")["triton"] == "tests.bench.dialled:Adapter"
    assert len(plan.shapes) == 20
    assert run(["ledger", "check", str(plan.ledgers)]) == 0


def test_real_kernels_are_measured_on_the_frozen_ledgers_themselves(tmp_path: Path) -> None:
    plan = full_gate.make_plan(tmp_path, options(real=True), random.Random(1))
    assert plan.ledgers == frozen_ledgers_dir()
    assert {shape.op_type for shape in plan.shapes} == {"rmsnorm", "gemm"}
    assert list(tmp_path.iterdir()) == []


def test_torch_compile_is_a_baseline_beside_pytorch(tmp_path: Path) -> None:
    given = options(real=True, providers="pytorch,pytorch_compiled")
    plan = full_gate.make_plan(tmp_path, given, random.Random(1))
    found = entrypoints(plan, "rmsnorm")
    assert plan.providers == "pytorch,ck"
    assert found["triton"] == "gate.replay.providers.triton:rmsnorm"
    assert found["ck"] == "gate.replay.providers.pytorch_compiled:rmsnorm"
    assert "ck" in store.read_matrix(plan.ledgers / "rmsnorm" / store.MATRIX_FILE).baselines
    assert run(["ledger", "check", str(plan.ledgers)]) == 0


class Made:
    """A side that times a kernel: head's is 20% slower where its dial is turned."""

    def __init__(self, *, dies_at: int = 10**6) -> None:
        self.rounds, self.left = 0, dies_at
        self.asked: list[str] = []
        self.link = SimpleNamespace(close=lambda: None)

    def opened(self, shape: Any, entrypoint: str) -> dict[str, Any]:
        self.asked.append(entrypoint.format(op=shape.op_type))
        self.left -= 1
        if self.left < 0:
            raise WorkerDied("it was killed", outside=True)
        if shape.args["M"] == 13:
            raise RuntimeError("pilot: failed: unlucky")
        return {}

    def captured(self, pilot: Any, *, budget_us: float) -> None:
        del pilot, budget_us

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        self.rounds = more.get("rounds", self.rounds)
        return {"t_us": 12.0 if self.rounds else 10.0, "gpu_ms": 5.0}


SHAPES = [make_shape(op_type="rmsnorm", dtype="fp32", args={"M": 10 + number, "N": 64}) for number in range(6)]


def compared(*, dials: dict[str, int], seconds: float = 60.0, **more: Any) -> usual_methods.Compared:
    sides: Any = {"head": Made(**more), "base": Made()}
    until = time.monotonic() + seconds
    return usual_methods.compare(sides, SHAPES, dials, entrypoint=usual_methods.DIALLED, until=until)


def test_the_usual_methods_cost_what_both_arms_cost(capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(dials={SHAPES[0].shape_id: 3, SHAPES[1].shape_id: 4})
    assert found.count == 5
    assert found.refused == {"pilot: failed: unlucky": 1}
    assert found.gpu_s["do_bench"] == pytest.approx(5 * 2 * 0.005)
    assert [seeded for seeded, _ in found.ratios["do_bench"]] == [True, True, False, False, False]
    assert found.ratios["one_launch"][0][1] == pytest.approx(1.2)
    usual_methods.tell(found)
    said = capsys.readouterr().out.splitlines()
    assert said[-1].split()[:2] == ["do_bench", "1.0"]
    assert said[-1].split()[4:6] == ["0/3", "2/2"]


def test_the_comparison_keeps_to_its_time_and_to_what_it_has_when_a_worker_dies() -> None:
    assert compared(dials={}, seconds=-1.0).count == 0
    found = compared(dials={}, dies_at=2)
    assert found.count == 2
    assert list(found.refused) == ["rmsnorm, and none after it: it was killed"]


def test_both_sides_are_workers_that_outlive_their_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = usual_methods.Side.ask

    def ask(self: usual_methods.Side, do: str, **more: Any) -> dict[str, Any]:
        more |= {"hello": {"device": f"sim:{SIM}"}, "open": {"op": "tests.replay.sim_kernels:OP"}}.get(do, {})
        # The methods themselves need torch; the time that a dial's command reads will do.
        usual = do in usual_methods.METHODS
        return {**plain(self, "dial" if usual else do, **({"rounds": 0} if usual else more)), "gpu_ms": 1.0}

    monkeypatch.setattr(usual_methods.Side, "ask", ask)
    monkeypatch.setattr(usual_methods, "REAL", "tests.replay.sim_kernels:good")
    usual_methods.run(SHAPES, {}, real=True, seconds=60, rng=random.Random(1))
    assert "two arms, 6 shapes of the same run" in capsys.readouterr().out


def test_seeded_and_other_shapes_come_in_turn() -> None:
    dials = {shape.shape_id: 1 for shape in SHAPES[:2]}
    order = usual_methods.in_turn(SHAPES, dials, random.Random(1))
    assert [shape.shape_id in dials for shape in order] == [True, False, True, False, False, False]
    assert {shape.shape_id for shape in order} == {shape.shape_id for shape in SHAPES}


def test_the_comparison_has_seconds_of_its_own() -> None:
    given = argparse.Namespace(no_compare=False, simulate=None, seconds=400.0)
    assert full_gate.compare_seconds(given) == pytest.approx(72.0)
    assert full_gate.compare_seconds(argparse.Namespace(no_compare=False, simulate=None, seconds=50.0)) == 20.0
    assert full_gate.compare_seconds(argparse.Namespace(no_compare=True, simulate=None, seconds=400.0)) == 0.0


def written(out: Path) -> Path:
    for name, text in {
        "decision.json": "{}",
        "report.html": "x" * 100_000,
        "replay/journal.jsonl": '{"a": 1}\n' * 1000,
        "replay/manifest.json": "{}",
        "replay/raw_samples.parquet": "raw",
        "replay/logs/head.txt": "log",
        "results/rmsnorm/benchmark_results.jsonl": "{}\n",
    }.items():
        store.write_text(out / name, text)
    return out


def test_what_is_kept(tmp_path: Path) -> None:
    said = gate_told.keep(written(tmp_path / "out"), tmp_path / "kept")
    kept = {str(path.relative_to(tmp_path / "kept")) for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    needed = {"decision.json", "replay/journal.jsonl.gz", "replay/manifest.json"}
    needed |= {"results/rmsnorm/benchmark_results.jsonl"}
    assert kept == {*needed, "report.html"}
    assert gzip.decompress((tmp_path / "kept/replay/journal.jsonl.gz").read_bytes()) == b'{"a": 1}\n' * 1000
    assert "kept 5 files, " in said
    said = gate_told.keep(tmp_path / "out", tmp_path / "less", limit=200)
    assert {
        str(path.relative_to(tmp_path / "less")) for path in (tmp_path / "less").rglob("*") if path.is_file()
    } == needed
    assert "; 1 file is left out of 0 MiB in all" in said


def test_a_whole_run_on_the_simulated_gpu_leaves_what_a_baseline_needs(tmp_path: Path) -> None:
    argv = ["--simulate", SIM, "--seconds", "120", "--commit", COMMIT, "--keep", str(tmp_path / "kept")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.full_gate", *argv], cwd=ROOT, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for words in ("gate run: pass", "6 of 6 shapes", "worker restarts: 0", "looks: ", "identical arms: 0 red of 6"):
        assert words in done.stdout
    assert json.loads((tmp_path / "kept/decision.json").read_bytes())["gate"] == "pass"
    ledgers = run_kills.prepare(tmp_path)
    record = ["baseline", "record", "--from", str(tmp_path / "kept/results"), "--ledgers", str(ledgers)]
    assert run([*record, "--commit", COMMIT, "--candidate", "flydsl"]) == 0
    assert len(list(ledgers.glob("*/baselines/*/benchmark_results.jsonl"))) == 2


@pytest.mark.parametrize("words", ["replay: 6 in all", "gate run: pass"])
def test_an_interruption_is_one_line_and_130(tmp_path: Path, words: str) -> None:
    argv = ["--simulate", SIM, "--seconds", "120", "--keep", str(tmp_path / "kept")]
    with (tmp_path / "stderr").open("w") as stderr:
        command = [sys.executable, "-u", "-m", "tests.bench.full_gate", *argv]
        process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=stderr)
        assert process.stdout is not None
        while words not in (line := process.stdout.readline()):
            assert line, (tmp_path / "stderr").read_text()
        process.send_signal(signal.SIGINT)
        rest = process.communicate()[0]
    assert process.returncode == 130, rest
    assert (tmp_path / "stderr").read_text() == "interrupted\n"
    assert list((tmp_path / "kept").rglob("journal.jsonl.gz"))
