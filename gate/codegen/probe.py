"""Knows how to name the FlyDSL of an interpreter without importing it: its version, its LLVM, and its files' hash.

Run as a script by that interpreter, standard library only; the answer is one line of JSON.
"""

from __future__ import annotations

import sys

# A script's own folder comes first on the path, and its neighbours' names are nobody's business here.
del sys.path[0]

import hashlib  # noqa: E402
import importlib.metadata  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import mmap  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
from pathlib import Path  # noqa: E402

LLVM_HASH = re.compile(rb"\d+\.\d+\.\d+git [0-9a-f]{40}")


def llvm_of(package: Path) -> str:
    """Return LLVM's version and commit as written into the wheel's own library, or "unknown"."""
    for library in sorted(package.glob("_mlir/_mlir_libs/libFlyPythonCAPI.so*")):
        with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
            # A plain find runs at memory speed where a regex over 250 MB takes seconds.
            at = view.find(b"git ")
            while at >= 0:
                found = LLVM_HASH.search(view[max(0, at - 12) : at + 44])
                if found:
                    return found.group(0).decode("ascii")
                at = view.find(b"git ", at + 1)
    return "unknown"


def content_of(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.digest()


def package_sha(package: Path) -> str:
    """Return 16 hex digits of SHA-256 over what compiles: the package's Python sources and its native libraries.

    Links are followed, because an editable install links its native half in from a build folder.
    """
    digest = hashlib.sha256()
    for folder, below, names in os.walk(package, followlinks=True):
        below[:] = sorted(name for name in below if name != "__pycache__")
        for name in sorted(names):
            if not name.endswith((".py", ".bc")) and ".so" not in name:
                continue
            path = Path(folder, name)
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + content_of(path))
    return digest.hexdigest()[:16]


def probe() -> dict[str, str]:
    """Name the installed FlyDSL without importing it: its version, its LLVM, and the hash of its files.

    A version alone names no compiler: an editable install keeps its version while its sources change. Raises
    ModuleNotFoundError when this interpreter has none.
    """
    spec = importlib.util.find_spec("flydsl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'flydsl'")
    package = Path(next(iter(spec.submodule_search_locations)))
    try:
        version = importlib.metadata.version("flydsl")
    except importlib.metadata.PackageNotFoundError:
        version = "uninstalled"
    return {"flydsl_version": version, "llvm": llvm_of(package), "flydsl_sha": package_sha(package)}


def main() -> int:
    try:
        reply = {"status": "ok", **probe()}
    except (ImportError, OSError) as error:
        reply = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(reply) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
