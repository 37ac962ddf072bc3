"""`gate doctor --contracts` and `--matrix`: exit codes, one line a drift, one line where the input is of no use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEDGERS = ["--ledgers", str(ROOT / "frozen_ledgers")]
SOFTMAX = "def build_softmax_module(N, dtype_str):\n    def launch(A, C, m_in, stream): ...\n    return launch\n"


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gate", "doctor", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def flydsl(tmp_path: Path) -> Path:
    (tmp_path / "f" / "kernels" / "norm").mkdir(parents=True)
    (tmp_path / "f" / "kernels" / "norm" / "softmax_kernel.py").write_text(SOFTMAX)
    return tmp_path / "f"


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    folder = tmp_path / "ledgers" / "softmax"
    folder.mkdir(parents=True)
    frozen = ROOT / "frozen_ledgers" / "softmax" / "shape_ledger.jsonl"
    folder.joinpath(frozen.name).write_bytes(frozen.read_bytes())
    return folder.parent


def test_a_checkout_as_called_is_clean_and_a_drifted_one_is_not(flydsl: Path, ledgers: Path) -> None:
    arguments = ("--contracts", "--flydsl", str(flydsl), "--ledgers", str(ledgers))
    done = doctor(*arguments)
    assert (done.returncode, done.stdout) == (0, "0 drifted, 1 as called\n")
    kernel = flydsl / "kernels" / "norm" / "softmax_kernel.py"
    kernel.write_text(SOFTMAX.replace("dtype_str", "element_type"))
    done = doctor(*arguments)
    assert done.returncode == 1 and done.stdout.endswith("2 drifted, 0 as called\n")
    assert "unknown argument: flydsl softmax: build_softmax_module takes no dtype_str (kernels/norm/" in done.stdout
    document = json.loads(doctor(*arguments, "--json").stdout)
    assert document["drifts"] == 2 and document["findings"][0]["where"] == "kernels/norm/softmax_kernel.py:1"


def test_aiter_without_any_module_drifts_in_every_call(tmp_path: Path) -> None:
    (tmp_path / "aiter").mkdir()
    done = doctor("--contracts", "--aiter", str(tmp_path))
    assert done.returncode == 1 and "missing module: aiter_triton softmax" in done.stdout
    assert "0 as called" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--contracts"], 64, "give --aiter DIR, --flydsl DIR or both"),
        (["--contracts", "--aiter", "/"], 2, "no checkout: it has no folder aiter"),
        (["--contracts", "--flydsl", "/nowhere"], 2, "give --flydsl the root of a clone"),
        (["--contracts", "--flydsl", "{flydsl}", "--ledgers", "/proc"], 2, "no ledgers in it"),
        (["--contracts", "--matrix"], 64, "exclude each other"),
        (["--aiter", "/"], 64, "need --contracts or --matrix"),
        (["--matrix", *LEDGERS, "--results", "/proc/self/fdinfo"], 2, "no benchmark_results.jsonl below it"),
        (["--matrix", *LEDGERS, "--compiles", "README.md"], 2, "README.md:1: no answer of provider_compiles"),
    ],
)
def test_input_of_no_use_is_one_line(flydsl: Path, arguments: list[str], code: int, words: str) -> None:
    done = doctor(*(argument.format(flydsl=flydsl) for argument in arguments))
    assert done.returncode == code and words in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_the_table_takes_what_is_known(tmp_path: Path) -> None:
    compiles = tmp_path / "compiles.jsonl"
    rows = [{"op": "gemm", "rows": 5, "state": "compiled"}, {"op": "gemm", "rows": 1, "state": "refused"}]
    compiles.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = doctor("--matrix", *LEDGERS, "--compiles", str(compiles))
    assert done.returncode == 0 and "| gemm | wired · 5 of 6 shapes compile for gfx950 |" in done.stdout
