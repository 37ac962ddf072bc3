"""Runs the replay verbs on the simulated GPU: a ledger, a matrix, arms that see this folder, and what came out."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gate import store
from gate.model.outcome import Outcome
from gate.model.shape import Shape
from tests.factory import make_shape

ROOT = Path(__file__).resolve().parents[2]
KERNELS = "tests.replay.sim_kernels"
SIM = "memory=64,l2=0.05,noise=0.002"


def shapes(count: int, **more: Any) -> list[Shape]:
    return [make_shape(dtype="fp32", args={"M": 4 + index, "N": 64, **more}) for index in range(count)]


def write_inputs(
    folder: Path, *, ledger: Sequence[Shape], candidate: str = "good", rival: str | None = "rival"
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    store.write_jsonl(folder / "shape_ledger.jsonl", ledger)
    providers: dict[str, Any] = {
        "flydsl": {"enabled": True, "entrypoint": f"{KERNELS}:{candidate}", "provider": "flydsl"}
    }
    if rival is not None:
        providers["triton"] = {"enabled": True, "entrypoint": f"{KERNELS}:{rival}", "provider": "triton"}
    providers["ck"] = {"enabled": False, "entrypoint": "nowhere:X", "provider": "ck", "skip_reason": "no such kernel"}
    matrix = {"kernel": "rmsnorm", "op_type": "rmsnorm", "dtype": "fp32", "providers": providers}
    store.write_text(folder / "baseline_matrix.yaml", yaml.safe_dump(matrix))


def arguments(folder: Path, *more: str, verb: str = "replay", sim: str = SIM) -> list[str]:
    files = ["--ledger", str(folder / "shape_ledger.jsonl"), "--matrix", str(folder / "baseline_matrix.yaml")]
    fixed = ["--op", "all", "--op-from", f"{KERNELS}:OP", "--simulate", sim, "--seed", "7"]
    quick = ["--budget-us", "200"] if verb == "replay" else []
    if "--lanes" not in more:
        quick += ["--lanes", "1"]
    return [verb, *fixed, *quick, *files, "--out", str(folder / "out"), "--head", f"path={ROOT}", *more]


def start(folder: Path, *more: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gate", *arguments(folder, *more, **options)]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})}
    )


def run(folder: Path, *more: str, env: Mapping[str, str] | None = None, **options: Any) -> tuple[int, str]:
    """Exit code and standard error."""
    process = start(folder, *more, env=env, **options)
    _, stderr = process.communicate(timeout=120)
    return process.returncode, stderr


def rows(folder: Path, side: str = "head", name: str = "benchmark_results.jsonl") -> list[Outcome]:
    return list(store.read_results(folder / "out" / side / "rmsnorm" / name).outcomes)


def by_provider(found: Sequence[Outcome], provider: str) -> list[Outcome]:
    return [row for row in found if row.provider == provider]


def comparable(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The rows without what names the session."""
    return [{**msgspec.to_builtins(row), "run_id": None, "session_id": None, "notes": None} for row in found]


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "manifest.json").read_text())
    return found


def samples(folder: Path) -> list[dict[str, Any]]:
    """The raw samples, whichever of the two forms was written."""
    parquet = folder / "out" / "raw_samples.parquet"
    if parquet.exists():
        import pyarrow.parquet

        found: list[dict[str, Any]] = pyarrow.parquet.read_table(parquet).to_pylist()
        return found
    return [json.loads(line) for line in (folder / "out" / "raw_samples.jsonl").read_text().splitlines()]


def workers_of(pid: int) -> list[int]:
    """The worker processes of a coordinator."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid and is_worker(int(stat.parent.name)):
            found.append(int(stat.parent.name))
    return found


def is_worker(pid: int) -> bool:
    try:
        return b"gate/replay/boot.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Returns when the condition holds; fails the test when it does not come about."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def kill(pid: int) -> None:
    """Signal 9, also to a process that has just ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def harass(
    process: Any, done: Counter[str], *, most: int, pause: Callable[[Any], None], workers: float, rng: random.Random
) -> None:
    """Kills a worker (a share `workers` of the times) or the coordinator after each pause, until `most` are done.

    Returns when the coordinator is killed or ends; `done` counts the kills.
    """
    while process.poll() is None and sum(done.values()) < most:
        pause(process)
        if process.poll() is not None:
            return
        alive = workers_of(process.pid)
        if alive and rng.random() < workers:
            kill(rng.choice(alive))
            done["worker"] += 1
        else:
            kill(process.pid)
            done["coordinator"] += 1
            return
