"""The page on adding things: its files are written as they stand there, and run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gate import store
from tests.replay.on_cpu import case_for, judged

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for text in BLOCKS for line in text.replace("\\\n", " ").splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The page's files, and the ledger of three additions that it makes of them."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    made = run(tmp_path, *command("ledger import"))
    assert made.returncode == 0, made.stderr
    return tmp_path


def command(place: str) -> list[str]:
    """The page's command that holds these words."""
    words = shlex.split(next(text for text in COMMANDS if place in text))
    assert words[0] == "gate"
    return words[1:]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-c", f"import sys; sys.path.append({str(ROOT)!r}); from gate.cli import main; main()"]
    return subprocess.run([*start, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_page_has_what_the_tests_run() -> None:
    assert set(FILES) == {"my_kernels/add.py", "my_kernels/rehearsal.py", "my_matrix.yaml", "my_shapes.yaml"}
    assert [text.split()[1] for text in COMMANDS] == ["correctness", "ledger", "correctness"]


@pytest.mark.parametrize("verb", ["correctness", "replay"])
def test_the_rehearsal_runs_on_the_simulated_gpu(folder: Path, verb: str) -> None:
    arguments = command("--simulate")
    quick = ["--blocks", "2", "--budget-us", "200"] if verb == "replay" else []
    done = run(folder, verb, *arguments[1:], *quick)
    assert done.returncode == 0, done.stderr
    name = "benchmark_results.jsonl" if verb == "replay" else "correctness_results.jsonl"
    rows = store.read_results(folder / "rehearsed" / "head" / "vec_add" / name).outcomes
    assert [(row.provider, row.benchmark_status, row.provider_detail) for row in rows] == [
        ("triton", "ok", "rehearsed")
    ] * 3


def test_an_entrypoint_of_the_command_line_goes_before_the_matrix(folder: Path) -> None:
    matrix = folder / "my_matrix.yaml"
    matrix.write_text(matrix.read_text().replace("my_kernels.rehearsal:vec_add", "nowhere:vec_add"))
    arguments = command("--simulate")
    assert run(folder, *arguments).returncode != 0
    named = ["--entrypoint", "triton=my_kernels.rehearsal:{op}", "--out", "second"]
    done = run(folder, *arguments, *named)
    assert done.returncode == 0, done.stderr
    rows = store.read_results(folder / "second" / "head" / "vec_add" / "correctness_results.jsonl").outcomes
    assert {row.benchmark_status for row in rows} == {"ok"}


@pytest.mark.parametrize("text", ["triton", "triton=plain", "nobody=a.b:c"])
def test_an_entrypoint_that_cannot_be_is_wrong_usage(folder: Path, text: str) -> None:
    done = run(folder, *command("--simulate"), "--entrypoint", text)
    assert done.returncode == 64 and len(done.stderr.strip().splitlines()) == 1
    assert f"--entrypoint {text} is not PROVIDER=MODULE:ATTR" in done.stderr and "triton" in done.stderr


@pytest.mark.parametrize(
    ("entrypoint", "op", "args"),
    [("my_kernels.add:vec_add", "vec_add", {"N": 4099}), ("my_kernels.add:Softmax", "softmax", {"M": 5, "N": 33})],
)
def test_the_providers_values_are_right(
    folder: Path, monkeypatch: pytest.MonkeyPatch, entrypoint: str, op: str, args: dict[str, Any]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == "my_kernels"]:
        monkeypatch.delitem(sys.modules, name)
    assert judged(entrypoint, case_for(op, "bf16", **args)) == []


def test_the_class_refuses_in_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from gate.replay.provider import load_entrypoint

    monkeypatch.syspath_prepend(str(folder))
    adapter = load_entrypoint("my_kernels.add:Softmax", "softmax")
    assert adapter.supports(case_for("softmax", "bf16", M=1, N=9000)) == "N = 9000 is above 8192"


def test_the_command_of_the_page_is_one_that_the_gate_takes(folder: Path) -> None:
    done = run(folder, *command("my_kernels.add"))
    # Without a GPU it says so; with one it runs.
    assert done.returncode in (0, 2) and "Usage" not in done.stderr
