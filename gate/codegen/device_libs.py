"""Knows where ROCm's device libraries are: the bitcode that a few kernels call for sin, exp and the like.

Most kernels need none. Where Triton is installed, its AMD backend carries them, so no ROCm installation is asked for.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path

LIBRARIES = ("ocml.bc", "ockl.bc")
BITCODE = Path("amdgcn") / "bitcode"
# What LLVM says of a kernel that calls a library which is not there, and what helps.
MISSING = "ROCm amdgcn bitcode path"
REMEDY = "the kernel calls ROCm's device libraries: install triton, whose wheel carries them, or set ROCM_PATH"


def find(scratch: Path, *, pythons: tuple[str, ...] = ()) -> Path | None:
    """Return a folder laid out like ROCm's that holds the device libraries, or None where there are none.

    Looked for in $ROCM_PATH and /opt/rocm, in this interpreter's Triton, and in the Triton of each of `pythons`;
    Triton's are linked into `scratch`.
    """
    for root in (os.environ.get("ROCM_PATH"), "/opt/rocm"):
        if root and _complete(Path(root) / BITCODE):
            return Path(root)
    for folder in (*_triton_here(), *(found for python in pythons for found in _triton_of(python))):
        if _complete(folder):
            return _linked(folder, scratch)
    return None


def sha(toolkit: Path) -> str:
    """16 hex digits of SHA-256 over the device libraries."""
    digest = hashlib.sha256()
    for name in LIBRARIES:
        digest.update(hashlib.sha256((toolkit / BITCODE / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


def _complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in LIBRARIES)


def _triton_here() -> list[Path]:
    spec = importlib.util.find_spec("triton")
    return (
        [Path(place) / "backends" / "amd" / "lib" for place in (spec.submodule_search_locations or ())] if spec else []
    )


def _triton_of(python: str) -> list[Path]:
    """Triton's libraries beside an interpreter of a virtual environment, without starting it."""
    return sorted(Path(python).parent.parent.glob("lib/python3*/site-packages/triton/backends/amd/lib"))


def _linked(libraries: Path, scratch: Path) -> Path:
    identity = hashlib.sha256(str(libraries.resolve()).encode()).hexdigest()[:16]
    root = scratch / f"toolkit-{identity}"
    (root / BITCODE).mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        link = root / BITCODE / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(libraries.resolve() / name)
    return root
