"""The command line: what it loads, what it says and its exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gate.cli import VERBS, run

HEAVY = (
    "torch",
    "triton",
    "flydsl",
    "aiter",
    "pandas",
    "scipy",
    "duckdb",
    "pyarrow",
    "ruptures",
    "numpy",
    "github",
    "jinja2",
    "rich",
    "jsonschema",
)


def _modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_help_loads_no_heavy_package() -> None:
    loaded = _modules_after("from gate.cli import run; assert run(['--help']) == 0")
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    assert "Usage: gate " + verb in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["nosuch"], ["--nosuch"], ["validate", "--nosuch"], ["run", "--op"]])
def test_wrong_usage_is_one_line_and_64(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv) == 64
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert "--help" in told[0]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert "gate" in capsys.readouterr().out
