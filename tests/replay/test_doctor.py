"""What the doctor says of broken nodes, each made on purpose."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gate.replay import node
from gate.replay.arms import ArmSpec, parse_spec

ROOT = Path(__file__).resolve().parents[2]
GOOD = {
    "python": "3.12",
    "torch": "2.8",
    "build": "rocm 7.0",
    "gpus": "8",
    "flydsl": "0.5.0",
    "flydsl_file": "/w/flydsl",
}


def states(found: dict[str, str], spec: ArmSpec | None = None) -> dict[str, node.Check]:
    return {check.name.partition(": ")[2]: check for check in node.arm_checks("head", spec or ArmSpec(), found)}


def test_a_machine_without_gpu_or_driver() -> None:
    assert node.gpus(8, "6.10").state == "ok"
    assert node.gpus(0, None).state == "bad" and "--device /dev/kfd" in node.gpus(0, None).fix
    assert "shows no GPU" in node.gpus(0, "6.10").what


def test_the_selecting_variables() -> None:
    assert node.visible({}).state == "ok"
    assert node.visible({"HIP_VISIBLE_DEVICES": ""}).fix == "unset HIP_VISIBLE_DEVICES"
    assert node.visible({"HIP_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "1"}).state == "note"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    assert node.scratch(tmp_path / "a" / "b", name="out").state == "ok"
    assert node.scratch(Path("/proc/nothing"), name="out").state == "bad"


def test_torch_of_the_wrong_build() -> None:
    assert states(GOOD)["torch"].state == "ok"
    assert "sees no GPU" in states({**GOOD, "gpus": "0"})["torch"].what
    missing = states({"torch_error": "ModuleNotFoundError: No module named 'torch'"})["torch"]
    assert missing.state == "bad" and "install the torch build" in missing.fix


def tree(folder: Path) -> Path:
    (folder / "python" / "flydsl").mkdir(parents=True)
    folder.joinpath(*node.FLYDSL_BUILD, *node.FLYDSL_LIBRARIES).mkdir(parents=True)
    return folder


def test_a_wheel_that_hides_the_build(tmp_path: Path) -> None:
    spec = parse_spec(f"flydsl={tree(tmp_path)}", side="head")
    check = states(GOOD, spec)["flydsl"]
    assert check.state == "bad" and "/w/flydsl is imported, not the build" in check.what
    inside = {**GOOD, "flydsl_file": f"{tmp_path}/build-fly/python_packages/flydsl/__init__.py"}
    assert states(inside, spec)["flydsl"].state == "ok"


def test_a_source_tree_without_its_build_on_the_path(tmp_path: Path) -> None:
    check = states(GOOD, parse_spec(f"path={tree(tmp_path)}", side="head"))["flydsl"]
    assert check.state == "note" and check.fix.startswith(f"give the arm flydsl={tmp_path}")


def test_libraries_that_are_not_found_in_time(tmp_path: Path) -> None:
    build = tree(tmp_path).joinpath(*node.FLYDSL_BUILD)
    broken = {**GOOD, "flydsl_error": "ImportError: libFlyPythonCAPI.so: cannot open shared object file"}
    del broken["flydsl"]
    check = states(broken, parse_spec(f"path={build}", side="head"))["flydsl"]
    assert check.state == "bad" and check.fix.startswith(f"add ld={build}/flydsl/_mlir/_mlir_libs")


def test_an_interpreter_that_dies(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'no such ABI' >&2\nexit 3\n")
    fake.chmod(0o755)
    found = node.probe(ArmSpec(python=str(fake)), {})
    assert found["died"] == "exit 3: no such ABI"
    assert states(found)["interpreter"].state == "bad"


def test_the_probe_sees_what_a_worker_would_see() -> None:
    found = node.probe(ArmSpec(), {"PATH": "/usr/bin"})
    assert found["python"] == sys.version.split()[0] and ("torch" in found or "torch_error" in found)


@pytest.mark.parametrize("as_json", [False, True])
def test_the_verb(as_json: bool) -> None:
    command = [sys.executable, "-m", "gate", "doctor", *(["--json"] if as_json else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2) and done.stderr == ""
    if as_json:
        assert json.loads(done.stdout)["checks"][0]["name"] == "gpu"
    else:
        assert "bad" in done.stdout.splitlines()[-1]
