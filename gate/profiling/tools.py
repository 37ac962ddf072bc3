"""The profilers: which one this machine has, the command that runs a script under it, and how that run ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gate.model.diagnosis import Tool
from gate.model.problem import Problem, UnusableInput

ROCPROF = "rocprofv3"
ROCM_BIN = Path("/opt/rocm/bin")
VERSION_SECONDS = 30.0
NO_ROCPROF = (
    "install ROCm's rocprofiler-sdk package (it brings rocprofv3) and put /opt/rocm/bin on PATH, or give --tool torch"
)
NO_KERNEL = "on the simulated GPU no profiler sees a kernel"
NO_SIMULATED = "profile on a machine with a GPU without --simulate, or read an existing trace with --from"
NO_GPU = "profile on a machine with a GPU, or read an existing trace with --from"


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """The profiler to be used: `command` comes before the interpreter, `after` follows the script."""

    tool: Tool
    command: tuple[str, ...]
    after: tuple[str, ...] = ()


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How the profiled program ended: its exit code, or None when it ran past its time."""

    code: int | None
    seconds: float


def find(
    wanted: str,
    *,
    folder: Path,
    environment: Mapping[str, str],
    devices: Path = Path("/dev"),
    simulated: bool = False,
) -> Watch:
    """The profiler for `auto`, `rocprof` or `torch`; its output goes to `folder`.

    Raises UnusableInput with what to install when there is none. No profiler sees a kernel of the `simulated` GPU:
    there only a program of rocprofv3's name is run, which may stand in for it.
    """
    program = shutil.which(ROCPROF, path=environment.get("PATH")) or shutil.which(ROCPROF, path=str(ROCM_BIN))
    if simulated and (wanted == "torch" or (wanted == "auto" and program is None)):
        raise UnusableInput(Problem(what=NO_KERNEL, file="", fix=NO_SIMULATED))
    nvidia, amd = (devices / "nvidiactl").exists(), (devices / "kfd").exists()
    if wanted == "rocprof" or (wanted == "auto" and (program is not None or (amd and not nvidia))):
        if program is None:
            raise UnusableInput(Problem(what=f"there is no {ROCPROF} on this machine", file="", fix=NO_ROCPROF))
        return Watch(tool="rocprofv3", command=rocprof_command(program, folder))
    if wanted == "torch" or nvidia:
        return Watch(tool="torch_profiler", command=(), after=("--torch-trace", str(folder / "torch_trace.json")))
    raise UnusableInput(Problem(what=f"no GPU and no {ROCPROF} on this machine", file="", fix=NO_GPU))


def rocprof_command(program: str, folder: Path) -> tuple[str, ...]:
    """rocprofv3 of ROCm 6.2 and later: kernels and copies, as CSV and JSON, in files `trace_*` of one folder."""
    traces = ("--kernel-trace", "--memory-copy-trace", "--output-format", "csv", "json")
    return (program, *traces, "--output-directory", str(folder), "--output-file", "trace", "--")


def version(watch: Watch, environment: Mapping[str, str]) -> str:
    """What rocprofv3 says of its version, on one line; empty for torch, whose version the environment tells."""
    if watch.tool != "rocprofv3":
        return ""
    try:
        done = subprocess.run(
            [watch.command[0], "--version"],
            env=dict(environment),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (line.strip() for line in done.stdout.splitlines())
    return next((line for line in lines if "version" in line.lower()), "")[:120]


def run(command: Sequence[str], *, folder: Path, environment: Mapping[str, str], timeout_s: float) -> Ran:
    """Runs the command in `folder`, its output in stdout.txt and stderr.txt there; ends all it started in time."""
    started = time.monotonic()
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as err:
        process = subprocess.Popen(
            list(command), cwd=folder, env=dict(environment), stdout=out, stderr=err, start_new_session=True
        )
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Ran(code=code, seconds=time.monotonic() - started)
