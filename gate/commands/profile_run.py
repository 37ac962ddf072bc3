"""One profiler run: writes the script, runs it under the tool, reads the trace, and diagnoses it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

import gate
from gate import store
from gate.commands import profile_files
from gate.commands.replay_inputs import case_of
from gate.commands.starting import unstarted
from gate.model.codegen import CodegenRecord
from gate.model.diagnosis import Diagnosis
from gate.model.problem import GateError, Problem, UnusableInput
from gate.model.shape import Shape
from gate.model.text import counted
from gate.profiling import repro, tools
from gate.profiling.diagnose import Subject, diagnose
from gate.replay.arms import ArmSpec
from gate.replay.last_words import how_it_ended
from gate.replay.machine import lock_gpu

TRACE_FOLDER = "trace"
TAIL = 300


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One (shape, provider) to be profiled, how, and where the files go."""

    shape: Shape
    provider: str
    entrypoint: str
    out: Path
    op: str | None = None
    tool: str = "auto"
    calls: int = repro.CALLS
    warmup: int = repro.WARMUP
    timeout_s: float = 300.0
    kernel: str | None = None
    gpu: str | None = None
    device: str = "gpu"


def profile(request: Request, arm: ArmSpec, code: Mapping[str, CodegenRecord], key: str | None) -> Diagnosis:
    """Profiles and writes diagnosis.json and all that led to it into the request's folder.

    Raises UnusableInput when there is no tool, when the profiled program does not end well and left no trace, or when
    its trace cannot be read; what the program said is kept then too.
    """
    out = request.out
    environment = arm.environment(os.environ, gpu=request.gpu)
    watch = tools.find(
        request.tool,
        folder=out.resolve() / TRACE_FOLDER,
        environment=environment,
        simulated=request.device.startswith("sim:"),
    )
    store.remove_folder(out / TRACE_FOLDER)
    (out / TRACE_FOLDER).mkdir(parents=True, exist_ok=True)
    job = _repro(request, arm, environment)
    store.write_text(out / "repro.py", repro.script(job))
    command = [*watch.command, _absolute(arm.python), str(out.resolve() / "repro.py"), *watch.after]
    # Whoever measures on this GPU would feel the profiled program.
    lock = lock_gpu(request.gpu) if request.device == "gpu" else None
    try:
        ran = tools.run(command, folder=out, environment=environment, timeout_s=request.timeout_s)
    except OSError as error:
        what = f"cannot be started: {error.strerror}"
        raise UnusableInput(unstarted(error) or Problem(what=what, file=command[0])) from None
    finally:
        if lock is not None:
            os.close(lock)
    version = tools.version(watch, environment)
    return _read(request, watch, ran, commit=arm.commit, version=version, record=code.get(key or ""))


def _absolute(python: str) -> str:
    """The interpreter as it is named from here: the program runs in another folder."""
    return str(Path(python).absolute()) if os.sep in python else python


def _repro(request: Request, arm: ArmSpec, environment: Mapping[str, str]) -> repro.Repro:
    names = [name for name, given in (("PYTHONPATH", arm.path), ("LD_LIBRARY_PATH", arm.ld)) if given]
    names += [name for name, _ in arm.env]
    return repro.Repro(
        gate=Path(gate.__file__).resolve().parent,
        python=_absolute(arm.python),
        entrypoint=request.entrypoint,
        case=asdict(case_of(request.shape)),
        op=request.op,
        calls=request.calls,
        warmup=request.warmup,
        device=request.device,
        environment={name: environment[name] for name in names},
    )


def _read(
    request: Request,
    watch: tools.Watch,
    ran: tools.Ran,
    *,
    commit: str | None,
    version: str,
    record: CodegenRecord | None,
) -> Diagnosis:
    out = request.out
    said = store.read_bytes(out / "stdout.txt").decode("utf-8", "replace")
    facts = repro.facts(said)
    ended = _ended(request, ran)
    try:
        found = profile_files.find(out / TRACE_FOLDER)[0]
        trace = profile_files.read(found)
    except GateError as error:
        raise UnusableInput(*((ended,) if ended else error.problems)) from None
    # The script is told how often to call; it tells itself how much of that the trace holds.
    warmup = _count(facts, "warmup", 0 if watch.tool == "torch_profiler" else request.warmup)
    subject = _subject(request, facts, warmup=warmup, commit=commit, version=version)
    own = {"script": "repro.py", "stdout": "stdout.txt", "stderr": "stderr.txt"}
    diagnosis = diagnose(trace, subject, code=record, files={**own, **profile_files.keep(found, out)})
    remarks = [str(ended)] if ended else []
    if "copies" in facts:
        copies = counted(_count(facts, "copies", 1), "copy", "copies")
        remarks.append(f"{counted(subject.calls or request.calls, 'call')} over a ring of {copies}")
    diagnosis = msgspec.structs.replace(diagnosis, notes=(*remarks, *diagnosis.notes))
    profile_files.write(out, diagnosis)
    return diagnosis


def _subject(request: Request, facts: Mapping[str, Any], *, warmup: int, commit: str | None, version: str) -> Subject:
    """What was profiled; the script's own words fill what the request leaves open."""
    return Subject(
        shape_id=request.shape.shape_id,
        provider=request.provider,
        op_type=request.shape.op_type,
        dtype=request.shape.dtype,
        args=dict(request.shape.args),
        commit=commit or _word(facts, "commit") or None,
        arch=_word(facts, "arch"),
        gpu=_word(facts, "gpu"),
        tool_version=version or _word(facts, "runtime"),
        calls=_count(facts, "calls", request.calls),
        warmup=warmup,
        kernel=request.kernel,
    )


def _ended(request: Request, ran: tools.Ran) -> Problem | None:
    """What is wrong with how the profiled program ended, or None."""
    if ran.code == 0:
        return None
    path = request.out / "stderr.txt"
    lines = [line.strip() for line in store.read_bytes(path).decode("utf-8", "replace").splitlines() if line.strip()]
    last = f": {lines[-1][:TAIL]}" if lines else ""
    if ran.code is None:
        what = f"the profiled program ran past {request.timeout_s:g} s and was ended{last}"
        return Problem(what=what, file=str(path), fix="give a longer --timeout")
    return Problem(
        what=f"the profiled program {how_it_ended(ran.code)}{last}", file=str(path), fix="run repro.py alone"
    )


def _word(facts: Mapping[str, Any], name: str) -> str:
    return str(facts.get(name) or "")


def _count(facts: Mapping[str, Any], name: str, default: int) -> int:
    found = facts.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def default_arm() -> ArmSpec:
    """The interpreter that runs the gate."""
    return ArmSpec(python=sys.executable)
