"""Knows how a FlyDSL wheel becomes an interpreter that has it: one managed environment per version, made once."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gate import locks

INSTALL_SECONDS = 900.0
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*")
READY = "ready"
NOISE = ("WARNING:", "[notice]", "DEPRECATION:")


class WheelError(RuntimeError):
    """A wheel cannot be had; the message is the installer's own last word."""


def environment(version: str, home: Path) -> str:
    """Return an interpreter with flydsl `version`, installed below `home` if it is not there yet.

    A pip already configured (index, proxies) is asked through its ordinary client. Raises WheelError when the wheel
    does not install.
    """
    if not VERSION.fullmatch(version):
        raise WheelError(f"{version!r} is not a version")
    folder = home / "wheels" / f"flydsl-{version}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    home.mkdir(parents=True, exist_ok=True)
    with locks.held(home / "wheels.lock", wait=True):
        if not (folder / READY).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
            install = ["install", "--quiet", "--disable-pip-version-check", f"flydsl=={version}", "numpy"]
            try:
                _run([sys.executable, "-m", "pip", "--python", str(python), *install])
            except WheelError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            (folder / READY).touch()
    return str(python)


def published() -> tuple[str, ...]:
    """Return the versions that pip's index has, pre-releases too, oldest first. Raises WheelError."""
    answer = _run([sys.executable, "-m", "pip", "index", "versions", "--pre", "--disable-pip-version-check", "flydsl"])
    for line in answer.splitlines():
        head, _, versions = line.partition(":")
        if head.strip() == "Available versions":
            return tuple(reversed([version.strip() for version in versions.split(",")]))
    raise WheelError("pip names no versions of flydsl")


def between(text: str, versions: Sequence[str]) -> tuple[str, ...]:
    """Return the versions that `A..B` spans, both ends included, or those of a comma-separated list as they are.

    Raises WheelError when an end is not among `versions` (oldest first), or they are in the wrong order.
    """
    first, dots, last = text.partition("..")
    if not dots:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    for end in (first, last):
        if end not in versions:
            raise WheelError(f"there is no flydsl {end} on the index; there are {', '.join(versions[-12:])}")
    low, high = versions.index(first), versions.index(last)
    if low >= high:
        raise WheelError(f"{first} is not older than {last}")
    return tuple(versions[low : high + 1])


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WheelError(str(error)) from None
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines()]
        spoken = [line for line in lines if line and not line.startswith(NOISE)]
        raise WheelError((spoken or [f"exit code {done.returncode}"])[-1][:300])
    return done.stdout
