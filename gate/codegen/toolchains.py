"""Knows what would compile: the FlyDSL or the Triton of an interpreter, and which kernels, by version and hash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gate.codegen import aiter_cases, cache, checkout, device_libs, triton_cases
from gate.model.codegen import Toolchain

HERE = Path(__file__).resolve().parent
PROBE = HERE / "probe.py"
CANARIES = HERE / "canaries"
PROBE_SECONDS = 60.0
# What AITER's kernels are made from: their sources, and the tiles it has chosen.
AITER_TRITON = Path("aiter") / "ops" / "triton"
# What our own are made from: the provider, and the ops with what they share, which say what tensors it gets.
OWN_TRITON = (
    "providers/triton", "ops", "attention.py", "codes.py", "experts.py", "norms.py", "products.py", "quantised.py",
)  # fmt: skip
AITER_SUFFIXES = (".py", ".json")


class ToolchainError(RuntimeError):
    """FlyDSL cannot be used in the interpreter that was named; the message says what, where and what to do."""


def find_toolchain(
    *,
    python: str = sys.executable,
    kernels_dir: Path = CANARIES,
    arch: str = "gfx950",
    kernels_commit: str | None = None,
    toolkit: Path | None = None,
) -> Toolchain:
    """Return what would compile: the wheel in `python`, its LLVM, and the kernels, without importing FlyDSL.

    `kernels_dir` is a folder of `<op>.py` files like the canaries, or a FlyDSL checkout with its `kernels` folder.

    Raises ToolchainError when `python` does not run or holds no FlyDSL.
    """
    try:
        run = _asked([python, str(PROBE)])
        reply = json.loads(run.stdout.splitlines()[0]) if run.stdout else {"error": run.stderr.strip()[-300:]}
    except (ValueError, subprocess.TimeoutExpired) as error:
        raise unusable(python, str(error)) from None
    if reply.get("status") != "ok":
        raise unusable(python, str(reply.get("error")))
    return Toolchain(
        flydsl_version=reply["flydsl_version"],
        llvm=reply["llvm"],
        flydsl_sha=reply["flydsl_sha"],
        kernels=checkout.NAME if is_checkout(kernels_dir) else kernels_dir.resolve().name,
        kernels_sha=cache.sources_sha(kernels_dir / "kernels" if is_checkout(kernels_dir) else kernels_dir),
        kernels_commit=kernels_commit,
        arch=arch,
        device_libs=device_libs.sha(toolkit) if toolkit else None,
    )


def find_triton(*, python: str, kernels: Path, arch: str, kernels_commit: str | None = None) -> Toolchain:
    """Return the Triton of an interpreter as a toolchain; `kernels` is the gate's replay folder, or AITER's checkout.

    Raises ToolchainError when `python` does not run, holds no Triton, or no torch, which the gate's kernels need.
    """
    of_aiter = is_aiter(kernels)
    ask = "import importlib.metadata as m; print(m.version('triton'))" + ("" if of_aiter else "; m.version('torch')")
    try:
        run = _asked([python, "-c", ask])
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"Triton cannot compile with {python} ({error})") from None
    if run.returncode:
        if run.stdout.strip():
            raise ToolchainError(f"there is no torch in {python}: install a build for the CPU there")
        raise ToolchainError(f"there is no Triton in {python}: install it there with pip install triton")
    version = run.stdout.strip()
    return Toolchain(
        flydsl_version="none",
        llvm=f"of triton {version}",
        kernels=aiter_cases.NAME if of_aiter else triton_cases.NAME,
        kernels_sha=cache.sources_sha(kernels / AITER_TRITON, suffixes=AITER_SUFFIXES)
        if of_aiter
        else cache.sources_sha(*(kernels / part for part in OWN_TRITON)),
        kernels_commit=kernels_commit,
        arch=arch,
        triton_version=version,
    )


def _asked(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What an interpreter answers, in whatever encoding.

    Raises ToolchainError where it cannot be started, subprocess.TimeoutExpired where it does not answer.
    """
    try:
        return subprocess.run(
            command,
            env=environment(),
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        why = f"{command[0]} cannot be started ({error.strerror})"
        raise ToolchainError(f"{why}: make its environment again, or name another interpreter") from None


def is_aiter(folder: Path) -> bool:
    """Whether a folder is a checkout of AITER with its Triton half."""
    return (folder / AITER_TRITON).is_dir()


def is_checkout(folder: Path) -> bool:
    """Whether a folder of kernels is a FlyDSL checkout."""
    return (folder / "kernels").is_dir()


def environment() -> dict[str, str]:
    """This process's environment without FlyDSL's own switches, which would change or dump what is compiled."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLYDSL_", "FLY_"))}
    return {**kept, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def unusable(python: str, why: str) -> ToolchainError:
    return ToolchainError(
        f"FlyDSL cannot compile with {python} ({why}): install it there with pip install 'flydsl-gate[codegen]', "
        "or name another interpreter"
    )
