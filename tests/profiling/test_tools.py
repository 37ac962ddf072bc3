"""Which profiler a machine has, what is run, and the script itself."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from gate.model.problem import UnusableInput
from gate.profiling import repro, tools


def machine(folder: Path, *, rocprof: bool, devices: tuple[str, ...]) -> tuple[dict[str, str], Path]:
    """An environment and a /dev of a machine with or without the tool and the devices."""
    (folder / "bin").mkdir()
    (folder / "dev").mkdir()
    if rocprof:
        (folder / "bin" / "rocprofv3").write_text("#!/bin/sh\n")
        (folder / "bin" / "rocprofv3").chmod(0o755)
    for name in devices:
        (folder / "dev" / name).touch()
    return {"PATH": str(folder / "bin")}, folder / "dev"


@pytest.mark.parametrize(
    ("wanted", "rocprof", "devices", "tool"),
    [
        ("auto", True, ("kfd",), "rocprofv3"),
        ("auto", False, ("nvidiactl",), "torch_profiler"),
        ("torch", True, ("kfd",), "torch_profiler"),
        ("torch", False, (), "torch_profiler"),
        ("auto", True, (), "rocprofv3"),
    ],
)
def test_the_tool_of_a_machine(tmp_path: Path, wanted: str, rocprof: bool, devices: tuple[str, ...], tool: str) -> None:
    environment, dev = machine(tmp_path, rocprof=rocprof, devices=devices)
    assert tools.find(wanted, folder=tmp_path, environment=environment, devices=dev).tool == tool


@pytest.mark.parametrize(
    ("wanted", "devices", "told"),
    [("rocprof", ("kfd",), "rocprofiler-sdk"), ("auto", ("kfd",), "rocprofiler-sdk"), ("auto", (), "--from")],
)
def test_no_tool_says_what_to_do(tmp_path: Path, wanted: str, devices: tuple[str, ...], told: str) -> None:
    environment, dev = machine(tmp_path, rocprof=False, devices=devices)
    with pytest.raises(UnusableInput) as caught:
        tools.find(wanted, folder=tmp_path, environment=environment, devices=dev)
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("wanted", "devices"), [("auto", ()), ("auto", ("nvidiactl",)), ("torch", ("nvidiactl",))])
def test_a_simulated_gpu_needs_no_gpu_but_no_profiler_sees_it(
    tmp_path: Path, wanted: str, devices: tuple[str, ...]
) -> None:
    environment, dev = machine(tmp_path, rocprof=False, devices=devices)
    with pytest.raises(UnusableInput) as caught:
        tools.find(wanted, folder=tmp_path, environment=environment, devices=dev, simulated=True)
    assert str(caught.value).startswith("on the simulated GPU no profiler sees a kernel; ")
    assert "no GPU" not in str(caught.value) and "--from" in str(caught.value)


def test_the_output_formats_come_before_the_program() -> None:
    command = tools.rocprof_command("rocprofv3", Path("/out"))
    assert command[-1] == "--"
    assert command[command.index("--output-format") + 1 :][:2] == ("csv", "json")


def test_a_program_that_runs_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    ran = tools.run([sys.executable, "-c", code], folder=tmp_path, environment={}, timeout_s=0.5)
    assert ran.code is None and ran.seconds < 30


@pytest.mark.parametrize("text", ['a"""b', "back\\slash", "new\nline", "{braces}", "ünïcode"])
def test_the_script_is_python_whatever_the_names_are(text: str) -> None:
    case = {"shape_id": "sha1:0", "op_type": "rmsnorm", "dtype": text, "args": {"M": 1, "x": text}, "layout": {}}
    job = repro.Repro(gate=Path("/gate") / text, python="python", entrypoint="m:k", case=case, environment={"A": text})
    tree = ast.parse(repro.script(job))
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert constants["CASE"] == case
    assert constants["GATE"] == str(Path("/gate") / text)


@pytest.mark.parametrize("said", ["", "nothing", "gate-repro {", "gate-repro 3", "noise\ngate-repro [1]"])
def test_a_script_that_said_nothing_useful(said: str) -> None:
    assert repro.facts(said) == {}


def test_the_facts_are_found_among_noise() -> None:
    assert repro.facts('warming up\ngate-repro {"calls": 3}\nbye\n') == {"calls": 3}
