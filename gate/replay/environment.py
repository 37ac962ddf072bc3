"""What a run's rows say of where they were measured: GPU, driver, toolkits and the packages' commits."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from gate.replay.device import Device
from gate.replay.sensors import query_tool

PACKAGES = {"torch": "torch", "triton": "triton", "flydsl": "flydsl", "aiter": "amd-aiter", "numpy": "numpy"}


def worker_environment(device: Device) -> dict[str, str]:
    """The environment as an arm's own process sees it; absent packages are left out."""
    found = {
        "gpu": device.facts.gpu,
        "arch": device.facts.arch,
        "uuid": device.facts.uuid,
        "runtime": device.facts.runtime,
        "python": platform.python_version(),
        "interpreter": sys.executable,
    }
    for name, distribution in PACKAGES.items():
        version = package_version(name, distribution)
        if version is not None:
            found[name] = version
        commit = package_commit(name)
        if commit is not None:
            found[f"{name}_commit"] = commit
    return found


def package_version(name: str, distribution: str) -> str | None:
    """The version of an importable package: its own if it is imported already, else its distribution's."""
    if name in sys.modules:
        version = getattr(sys.modules[name], "__version__", None)
        if version is not None:
            return str(version)
    if _origin(name) is None:
        return None
    for candidate in (distribution, name):
        try:
            return importlib.metadata.version(candidate)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def _origin(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def package_commit(name: str) -> str | None:
    """The commit of the checkout that an importable package lies in, `+` appended when it has local changes."""
    origin = _origin(name)
    if origin is None or "site-packages" in origin.parts or "dist-packages" in origin.parts:
        return None
    return commit_of(origin.parent)


def commit_of(folder: Path) -> str | None:
    """The git commit of a folder, 12 digits, or None outside a checkout."""
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    if head is None:
        return None
    return f"{head}+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else head


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def driver_version() -> str | None:
    """The GPU driver's version, from the vendor's tool or the kernel module."""
    nvidia = query_tool("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    if nvidia:
        return nvidia.splitlines()[0].strip()
    try:
        return Path("/sys/module/amdgpu/version").read_text(encoding="ascii").strip()
    except OSError:
        return None


def machine() -> dict[str, Any]:
    """The host, for the manifest."""
    return {"system": platform.platform(), "driver": driver_version()}


def gpu_count() -> int:
    """How many GPUs this machine has, without touching one: NVIDIA's tool, else AMD's compute nodes in sysfs."""
    listed = query_tool("nvidia-smi", "-L")
    if listed:
        return sum(line.startswith("GPU ") for line in listed.splitlines())
    nodes = Path("/sys/class/kfd/kfd/topology/nodes")
    return sum(_has_simd(node) for node in nodes.glob("*")) if nodes.is_dir() else 0


def _has_simd(node: Path) -> bool:
    try:
        text = (node / "properties").read_text(encoding="ascii")
    except OSError:
        return False
    return any(line.startswith("simd_count ") and line.split()[1] != "0" for line in text.splitlines())
