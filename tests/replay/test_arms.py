"""What a SPEC becomes: the interpreter, the paths in front, the libraries before exec."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gate.model.problem import WrongUsage
from gate.replay.arms import ArmSpec, parse_spec


def test_no_spec_is_this_interpreter() -> None:
    assert parse_spec(None, side="head") == ArmSpec(python=sys.executable)
    assert parse_spec("", side="base") == ArmSpec(python=sys.executable)


def test_every_key(tmp_path: Path) -> None:
    for name in ("a", "b", "lib"):
        (tmp_path / name).mkdir()
    text = f"python={sys.executable},path={tmp_path}/a:{tmp_path}/b,ld={tmp_path}/lib,commit=c0ffee,env=FLYDSL_X:1"
    spec = parse_spec(text, side="head")
    assert spec.path == (f"{tmp_path}/a", f"{tmp_path}/b") and spec.commit == "c0ffee"
    environment = spec.environment({"PYTHONPATH": "/old", "HOME": "/h"}, gpu="3")
    assert environment["PYTHONPATH"] == f"{tmp_path}/a:{tmp_path}/b:/old"
    assert environment["LD_LIBRARY_PATH"] == f"{tmp_path}/lib"
    assert environment["CUDA_VISIBLE_DEVICES"] == environment["HIP_VISIBLE_DEVICES"] == "3"
    assert environment["FLYDSL_X"] == "1" and environment["HOME"] == "/h"


def test_a_flydsl_tree_stands_for_its_paths(tmp_path: Path) -> None:
    libraries = tmp_path / "build-fly" / "python_packages" / "flydsl" / "_mlir" / "_mlir_libs"
    libraries.mkdir(parents=True)
    spec = parse_spec(f"flydsl={tmp_path}", side="head")
    assert spec.path == (str(tmp_path / "build-fly" / "python_packages"), str(tmp_path))
    assert spec.ld == (str(libraries),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pyhton=/usr/bin/python3", "'pyhton=/usr/bin/python3' is not KEY=VALUE"),
        ("python", "'python' is not KEY=VALUE"),
        ("python=/no/such/python", "is not an executable file"),
        ("python=/tmp", "is not an executable file"),
        ("path=/no/such/folder", "/no/such/folder does not exist"),
        ("flydsl=/tmp", "build it with scripts/build.sh"),
        ("env=NOCOLON", "is not env=NAME:VALUE"),
    ],
)
def test_a_wrong_spec_is_one_line(text: str, words: str) -> None:
    with pytest.raises(WrongUsage, match=words) as caught:
        parse_spec(text, side="head")
    assert caught.value.problems[0].file == "--head"
