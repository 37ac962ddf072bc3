"""Knows how a list of cases becomes a list of records: toolchain, cache, workers, and reading what they answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from gate.codegen import aiter_cases, cache, checkout, device_libs
from gate.codegen.isa import IsaError, read_isa
from gate.codegen.keys import CompileCase, unique_cases
from gate.codegen.pool import Pool, Reply, StartError, termination_interrupts
from gate.codegen.toolchains import CANARIES as CANARIES
from gate.codegen.toolchains import HERE, environment, find_toolchain, is_checkout, unusable
from gate.model.codegen import CodegenRecord, Toolchain

WORKER = HERE / "worker.py"
BINDING = tuple(HERE.parent / "binding" / name for name in ("bind.py", "arguments.py", "assembly.py"))
TRITON_WORKER = HERE / "triton_worker.py"
AITER_LAUNCHES = HERE / "aiter_launches.py"
STAND_IN = HERE / "torch_stand_in.py"


def compile_cases(
    cases: Sequence[CompileCase],
    *,
    python: str = sys.executable,
    kernels_dir: Path = CANARIES,
    arch: str = "gfx950",
    jobs: int | None = None,
    timeout_s: float = 120.0,
    on_record: Callable[[CodegenRecord], None] | None = None,
    cache_dir: Path | None = None,
    toolchain: Toolchain | None = None,
    toolkit: Path | None = None,
    installed_torch: bool = False,
) -> tuple[CodegenRecord, ...]:
    """Compile each compile key once and return one record per key, in the order of first appearance.

    `python` is the interpreter whose FlyDSL compiles (whose Triton does, for a toolchain of `find_triton`),
    `kernels_dir` as for `find_toolchain`, `toolkit` a folder laid out like ROCm's that holds the device libraries,
    `installed_torch` whether torch itself is used, `timeout_s` the wall time one case may take. `on_record` hears of
    each record as it arrives, in the caller's thread. With `cache_dir`, what was compiled before is read back. A case
    that fails, hangs or kills its worker is a record like any other. Raises ToolchainError when FlyDSL is unusable;
    an exception, an interrupt or a SIGTERM ends the workers.
    """
    tools = toolchain or find_toolchain(python=python, kernels_dir=kernels_dir, arch=arch, toolkit=toolkit)
    unique = unique_cases(cases) if tools.triton_version else _with_sources(unique_cases(cases), kernels_dir)
    places = _places(unique, tools, cache_dir, installed_torch=installed_torch)
    command = _command(python, kernels_dir, tools, toolkit=toolkit, installed_torch=installed_torch)
    records: dict[str, CodegenRecord] = {}
    kept = places if cache_dir else {}
    found = _replies(unique, kept, command, jobs=jobs or os.cpu_count() or 1, timeout_s=timeout_s)
    with closing(found) as replies:
        for case, reply in replies:
            record = record_of(case, reply, tools)
            records[case.compile_key] = record
            if on_record:
                on_record(record)
    return tuple(records[case.compile_key] for case in unique)


def _replies(
    cases: Sequence[CompileCase], places: Mapping[str, Path], command: list[str], *, jobs: int, timeout_s: float
) -> Generator[tuple[CompileCase, Reply], None, None]:
    """What the cache holds at `places`, then what the workers answer, which is kept there; without places neither."""
    pending = []
    for case in cases:
        kept = cache.read_entry(places[case.compile_key]) if places else None
        if kept is None:
            pending.append(case)
        else:
            yield case, kept
    with termination_interrupts(), closing(_answers(command, pending, jobs=jobs, timeout_s=timeout_s)) as answers:
        for case, reply in answers:
            if places:
                cache.write_entry(places[case.compile_key], reply)
            yield case, reply


def _command(
    python: str, kernels_dir: Path, tools: Toolchain, *, toolkit: Path | None, installed_torch: bool
) -> list[str]:
    script = TRITON_WORKER if tools.triton_version else WORKER
    command = [python, str(script), "--kernels", str(kernels_dir.resolve()), "--arch", tools.arch]
    command += ["--toolkit", str(toolkit)] if toolkit else []
    return command + (["--installed-torch"] if installed_torch else [])


def _with_sources(cases: tuple[CompileCase, ...], kernels_dir: Path) -> tuple[CompileCase, ...]:
    if not is_checkout(kernels_dir):
        return cases
    sources = checkout.Sources(kernels_dir.resolve())
    return tuple(msgspec.structs.replace(case, source_sha=sources.sha(case.parts)) for case in cases)


def _places(
    cases: Sequence[CompileCase], tools: Toolchain, cache_dir: Path | None, *, installed_torch: bool = False
) -> dict[str, Path]:
    scripts = [TRITON_WORKER, AITER_LAUNCHES, STAND_IN] if tools.triton_version else [WORKER, *BINDING, STAND_IN]
    # What a kernel reads of torch may differ between torch and the stand-in, so their answers lie apart.
    worker_sha = cache.sources_sha(*scripts) + ("-torch" if installed_torch else "")
    directory = cache_dir or Path()
    return {case.compile_key: cache.entry_path(directory, tools, case, worker_sha=worker_sha) for case in cases}


def _answers(
    command: list[str], cases: Sequence[CompileCase], *, jobs: int, timeout_s: float
) -> Generator[tuple[CompileCase, Reply], None, None]:
    if not cases:
        return
    questions = [msgspec.to_builtins(case) for case in cases]
    try:
        with closing(Pool(command, environment(), timeout_s).run(questions, jobs)) as replies:
            for index, reply in replies:
                yield cases[index], reply
    except StartError as error:
        raise unusable(command[0], str(error)) from None


def cached_isa(record: CodegenRecord, cache_dir: Path) -> str | None:
    """Return the assembly a record was read from, where the cache still holds it."""
    for installed_torch in (False, True):
        places = _places([cache.case_of(record)], record.toolchain, cache_dir, installed_torch=installed_torch)
        reply = cache.read_entry(places[record.compile_key])
        text = reply.get("isa") if reply else None
        if isinstance(text, str):
            return text
    return None


def record_of(case: CompileCase, reply: Reply, toolchain: Toolchain) -> CodegenRecord:
    """Return the record of one answer; assembly that cannot be read is a failure with the reader's words."""
    seconds = reply.get("seconds")
    common: dict[str, Any] = {
        "compile_key": case.compile_key,
        "op_type": case.op_type,
        "dtype": case.dtype,
        "constexprs": case.constexprs,
        "toolchain": toolchain,
        "arch": toolchain.arch,
        "source_sha": case.source_sha,
        "provider": _provider(toolchain),
        "compile_seconds": float(seconds) if seconds is not None else None,
    }
    if reply["status"] != "ok":
        error = str(reply.get("error") or "no message")
        if device_libs.MISSING in error:
            error = device_libs.REMEDY
        return CodegenRecord(**common, status=reply["status"], error=error)
    try:
        reading = read_isa(reply["isa"], toolchain.arch)
    except IsaError as error:
        return CodegenRecord(**common, status="failed", error=str(error))
    return CodegenRecord(
        **common,
        status="ok",
        kernel=reading.kernel,
        metrics=reading.metrics,
        isa_sha=reading.isa_sha,
        opcode_sha=reading.opcode_sha,
        launch_sha=reply.get("launch_sha"),
    )


def _provider(toolchain: Toolchain) -> str:
    if not toolchain.triton_version:
        return "flydsl"
    return aiter_cases.NAME if toolchain.kernels == aiter_cases.NAME else "triton"
