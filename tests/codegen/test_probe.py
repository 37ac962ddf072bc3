"""Naming a FlyDSL by its files: an edit of the same version is another compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.codegen import device_libs
from gate.codegen.toolchains import PROBE


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "flydsl"
    (root / "expr").mkdir(parents=True)
    (root / "__init__.py").write_text("x = 1\n")
    (root / "expr" / "math.py").write_text("y = 1\n")
    (root / "notes.txt").write_text("n\n")
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "libFly.so.24").write_bytes(b"\x7fELF 1")
    (root / "_mlir").symlink_to(tmp_path / "built")
    return root


def sha(package: Path) -> str:
    names: dict[str, object] = {"__name__": "probe", "__file__": str(PROBE)}
    source = PROBE.read_text().replace("del sys.path[0]\n", "")
    exec(compile(source, str(PROBE), "exec"), names)
    found = names["package_sha"](package)  # type: ignore[operator]
    assert isinstance(found, str) and len(found) == 16
    return found


@pytest.mark.parametrize(
    ("edited", "moves"),
    [("__init__.py", True), ("expr/math.py", True), ("_mlir/libFly.so.24", True), ("notes.txt", False)],
)
def test_sources_and_linked_native_libraries_count(package: Path, edited: str, moves: bool) -> None:
    before = sha(package)
    with (package / edited).open("ab") as file:
        file.write(b"# edited\n")
    assert (sha(package) != before) is moves


def test_compiled_leftovers_do_not_count(package: Path) -> None:
    before = sha(package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "math.py").write_text("stale\n")
    assert sha(package) == before


def test_device_libraries_are_found_beside_an_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCM_PATH", raising=False)
    monkeypatch.setattr(device_libs, "_triton_here", list)
    python = tmp_path / "env" / "bin" / "python"
    libraries = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "triton" / "backends" / "amd" / "lib"
    libraries.mkdir(parents=True)
    (libraries / "ocml.bc").write_bytes(b"1")
    # Nor in /opt/rocm, whatever this machine has there.
    monkeypatch.setattr(device_libs, "BITCODE", Path("no") / "such" / "folder")
    assert device_libs.find(tmp_path / "scratch", pythons=(str(python),)) is None
    (libraries / "ockl.bc").write_bytes(b"2")
    found = device_libs.find(tmp_path / "scratch", pythons=(str(python),))
    again = device_libs.find(tmp_path / "scratch", pythons=(str(python),))
    assert found is not None and found == again
    first = device_libs.sha(found)
    (libraries / "ockl.bc").write_bytes(b"3")
    assert device_libs.sha(found) != first
