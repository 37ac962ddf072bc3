"""The document on trying the gate without a GPU: its commands do what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / "without-a-gpu.md").read_text("utf-8"), re.S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("gate", "tests", "templates", "frozen_ledgers"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def bash(folder: Path, *blocks: str) -> subprocess.CompletedProcess[str]:
    start = f'gate() {{ "{sys.executable}" -m gate "$@"; }}; python() {{ "{sys.executable}" "$@"; }}'
    script = "\n".join(["set -e", start, *blocks])
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def decision(folder: Path) -> tuple[str, int]:
    found = json.loads((folder / "decision.json").read_text())
    return found["gate"], found["counts"]["regressed"]


def test_the_timed_gate_is_tried_as_documented(folder: Path) -> None:
    done = bash(folder, *BLOCKS[2:-1])
    assert done.returncode == 0, done.stderr
    trial = folder / "rehearsal"
    assert [decision(trial / name) for name in ("same", "slower", "merged")] == [
        ("pass", 0),
        ("block", 4),
        ("pass", 0),
    ]
    assert done.stdout.count("exit code 1") == 2


def test_a_canary_that_got_worse_blocks_as_documented(folder: Path) -> None:
    pytest.importorskip("flydsl")
    quick = BLOCKS[0].replace("gate run", "gate run --op softmax")
    done = bash(folder, quick)
    assert done.returncode == 1, done.stderr
    found = json.loads((folder / "gate-out" / "decision.json").read_text())
    assert any(row["code"]["head"]["spills"] > 0 for row in found["rows"] if row["verdict"] == "regressed")


def test_stored_times_are_judged_as_documented_and_without_a_candidate_it_says_what_is_missing(folder: Path) -> None:
    done = bash(folder, BLOCKS[-1])
    assert done.returncode == 0, done.stderr
    assert decision(folder / "judged") == ("pass", 0)
    done = bash(folder, BLOCKS[-1].replace("--candidate triton ", ""))
    assert done.returncode == 2
    assert "both sides timed pytorch, triton: name one as --candidate" in done.stdout
