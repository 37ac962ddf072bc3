"""What a hosted runner gives a workflow's scripts: the scripts as they stand, tools on the path, git, and bash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
GIT = ["-c", "user.name=someone", "-c", "user.email=someone@example.invalid", "-c", "commit.gpgsign=false"]


def scripts(workflow: str) -> dict[str, str]:
    """The scripts of the only job of a workflow, by their steps' names."""
    loaded = yaml.safe_load((ROOT / ".github" / "workflows" / workflow).read_text())
    (job,) = loaded["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


def tool(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def gate_tool(folder: Path) -> None:
    """`gate` of this checkout as a program in `folder`."""
    tool(folder / "gate", f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m gate "$@"\n')


def git(*words: str, cwd: Path) -> str:
    """What git prints; CalledProcessError where it fails."""
    return subprocess.run(["git", *GIT, *words], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def step(script: str, *, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """One step as a runner's bash runs it."""
    argv = ["bash", "-e", "-c", script]
    return subprocess.run(argv, cwd=cwd, env=dict(env), capture_output=True, text=True, timeout=120, check=False)
