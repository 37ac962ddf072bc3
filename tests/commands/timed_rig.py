"""Timed runs on the simulated GPU: frozen ledgers of two ops, arms whose speed the test sets, and what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gate import store
from gate.cli import run
from gate.model.shape import Shape
from tests.factory import make_shape

ROOT = Path(__file__).resolve().parents[2]
KERNELS = "tests.replay.sim_kernels"
# Added to an arm: 4% slower, but for the shapes that are marked as steady.
SLOW = ",env=SIM_FACTOR:1.04"
SIM = "memory=64,l2=0.05,noise=0.002"
# Fewer process pairs than by default: each is two processes to start.
POLICY = "[screen]\nlooks = [4, 6, 8]\n[confirm]\nprocesses = [3, 6]\n"
# How many shapes of an op the shards of `sharded` share.
SHARDED = {"rmsnorm": 5, "softmax": 3}


def shapes(op: str, count: int, **more: Any) -> list[Shape]:
    return [make_shape(op_type=op, dtype="fp32", args={"M": 4 + number, "N": 64, **more}) for number in range(count)]


def write_ledgers(root: Path, ledgers: Mapping[str, Sequence[Shape]], *, candidate: str = "arm") -> Path:
    """`root` with one folder an op, frozen; the candidate's speed comes from SIM_FACTOR of its arm."""
    for op, rows in ledgers.items():
        store.write_jsonl(root / op / store.LEDGER_FILE, rows)
        providers = {
            name: {"enabled": True, "entrypoint": f"{KERNELS}:{attribute}", "provider": name}
            for name, attribute in (("flydsl", candidate), ("triton", "rival_of"))
        }
        matrix = {
            "kernel": op,
            "op_type": op,
            "dtype": "fp32",
            "reference_provider": "triton",
            "providers": providers,
        }
        store.write_text(root / op / store.MATRIX_FILE, yaml.safe_dump(matrix))
    store.write_text(root / "policy.toml", POLICY)
    assert run(["ledger", "freeze", str(root)]) == 0
    return root


def arguments(root: Path, out: Path, *more: str, head: str = "", base: str | None = "", sim: str = SIM) -> list[str]:
    """The command line of a timed run with `env=...` parts added to each arm."""
    argv = ["run", "--replay", "--ledgers", str(root), "--out", str(out), "--op-from", f"{KERNELS}:OP"]
    argv += ["--simulate", sim, "--seed", "7", "--budget-us", "200", "--lanes", "1", "--no-code"]
    argv += ["--head", f"path={ROOT},commit={'a' * 40}{head}"]
    if base is not None:
        argv += ["--base", f"path={ROOT},commit={'b' * 40}{base}"]
    return [*argv, *more]


def call(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit code and standard error of one `gate` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gate", *argv],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        timeout=300,
        env={**os.environ, **(env or {})},
    )
    return done.returncode, done.stderr


def journal(out: Path, name: str) -> list[dict[str, Any]]:
    """The records of shapes in the journal of `replay` or `confirm`."""
    lines = [json.loads(line) for line in (out / name / "journal.jsonl").read_text().splitlines()]
    return [line for line in lines if "shape_id" in line]
