"""What `run` and `codegen` share: from ledgers to codegen records on disk, with progress, and from records to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from gate import store
from gate.codegen import compile as compiler
from gate.codegen import toolchains
from gate.codegen.keys import CompileCase, Unsupported, compile_case
from gate.commands.progress import progress
from gate.model.codegen import CodegenChange, CodegenRecord, Metrics, Toolchain
from gate.model.decision import CodeEvidence, CodeSide
from gate.model.matrix import Matrix
from gate.model.outcome import Outcome, Status
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import Shape

NOT_TIMED = "machine code only: nothing was launched"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which compile case serves each shape, by shape_id; a shape without code has the kernel's reason instead."""

    cases: dict[str, CompileCase]
    refused: dict[str, Unsupported]

    def distinct(self) -> list[CompileCase]:
        """One case per compile key."""
        return list({case.compile_key: case for case in self.cases.values()}.values())


class Compiler(msgspec.Struct, frozen=True, kw_only=True):
    """How to compile: the interpreter that has flydsl, the kernels, the target and the limits."""

    python: str
    kernels: Path
    arch: str
    jobs: int | None
    timeout_s: float
    toolkit: Path | None = None
    installed_torch: bool = False


def plan(shapes: Iterable[Shape], case_of: Callable[[Shape], CompileCase | Unsupported] = compile_case) -> Plan:
    """Maps each shape to its compile case or its refusal; `case_of` knows the kernels, by default our own."""
    found = {shape.shape_id: case_of(shape) for shape in shapes}
    return Plan(
        cases={key: case for key, case in found.items() if isinstance(case, CompileCase)},
        refused={key: refusal for key, refusal in found.items() if isinstance(refusal, Unsupported)},
    )


def find_toolchain(how: Compiler) -> Toolchain:
    """The flydsl that would compile. Raises UnusableInput with the remedy where there is none."""
    try:
        return toolchains.find_toolchain(python=how.python, kernels_dir=how.kernels, arch=how.arch, toolkit=how.toolkit)
    except toolchains.ToolchainError as error:
        raise UnusableInput(Problem(what=str(error), file="")) from None


def record(cases: Sequence[CompileCase], how: Compiler, *, toolchain: Toolchain, cache: Path) -> list[CodegenRecord]:
    """Compiles each case once, showing progress; finished cases lie in `cache`, so an interrupted run goes on."""
    name = f"triton {toolchain.triton_version}" if toolchain.triton_version else f"flydsl {toolchain.flydsl_version}"
    title = f"compiling for {how.arch} with {name}"
    with progress(title, len(cases)) as step:
        try:
            return list(
                compiler.compile_cases(
                    cases,
                    python=how.python,
                    kernels_dir=how.kernels,
                    arch=how.arch,
                    jobs=how.jobs,
                    timeout_s=how.timeout_s,
                    on_record=lambda done: step(f"{done.compile_key} {done.status}"),
                    cache_dir=cache,
                    toolchain=toolchain,
                    toolkit=how.toolkit,
                    installed_torch=how.installed_torch,
                )
            )
        except toolchains.ToolchainError as error:
            raise UnusableInput(Problem(what=str(error), file="")) from None


def write_records(folder: Path, records: Iterable[CodegenRecord]) -> None:
    """One codegen_records.jsonl per op under `folder`, in the order of the compile keys."""
    by_op: dict[str, list[CodegenRecord]] = {}
    for one in records:
        by_op.setdefault(one.op_type, []).append(one)
    for op, rows in by_op.items():
        rows.sort(key=lambda row: row.compile_key)
        store.write_jsonl(folder / op / store.CODEGEN_FILE, rows)


def write_isa(folder: Path, records: Iterable[CodegenRecord], *, cache: Path) -> None:
    """The assembly of each compiled case, as a file named by its compile key."""
    for one in records:
        text = compiler.cached_isa(one, cache)
        if text is not None:
            name = one.compile_key.replace("/", "_").replace(",", "_") + ".s"
            store.write_text(folder / name, text)


STATUS: Mapping[str, Status] = {"ok": "ok", "unsupported": "unsupported"}


def outcomes(
    shapes: Iterable[Shape], work: Plan, *, records: Mapping[str, CodegenRecord], matrices: Mapping[str, Matrix]
) -> list[Outcome]:
    """One row per (shape, provider of the matrix): the candidate's from its record, the others' say why not."""
    rows: list[Outcome] = []
    for shape in shapes:
        matrix = matrices[shape.op_type]
        for name, entry in matrix.providers.items():
            if name == matrix.candidate_provider:
                rows.append(_candidate(shape, name, work=work, records=records))
            elif entry.enabled:
                rows.append(_row(shape, name, status="skipped", reason=NOT_TIMED))
            else:
                rows.append(_row(shape, name, status="not_configured", reason=entry.skip_reason))
    return rows


def _candidate(shape: Shape, provider: str, *, work: Plan, records: Mapping[str, CodegenRecord]) -> Outcome:
    refusal = work.refused.get(shape.shape_id)
    if refusal is not None:
        # A shape that the kernel refuses is its own word; an op without a kernel was simply not looked at.
        return _row(shape, provider, status="skipped" if refusal.no_kernel else "unsupported", reason=refusal.reason)
    key = work.cases[shape.shape_id].compile_key
    found = records.get(key)
    if found is None:
        return _row(shape, provider, status="skipped", reason="not compiled")
    row = _row(shape, provider, status=STATUS.get(found.status, "failed"), reason=found.error)
    tools = found.toolchain
    return msgspec.structs.replace(
        row,
        arch=found.arch,
        run_id=f"codegen-{tools.flydsl_version}-{tools.kernels_sha}",
        provider_detail=f"{tools.kernels}, {key}, flydsl {tools.flydsl_version}, LLVM {tools.llvm}",
        candidate_commit=tools.kernels_commit or tools.flydsl_commit or f"flydsl {tools.flydsl_version}",
        timing_method="codegen",
        flydsl_version=tools.flydsl_version,
        llvm_version=tools.llvm,
        kernels_sha=tools.kernels_sha,
        compile_key=key,
        isa_sha=found.isa_sha,
    )


def _row(shape: Shape, provider: str, *, status: Status, reason: str | None) -> Outcome:
    return Outcome(
        run_id="codegen",
        shape_id=shape.shape_id,
        provider=provider,  # type: ignore[arg-type]  # the matrix reader has checked the name
        provider_detail=None,
        candidate_commit=None,
        gpu=None,
        arch=shape.arch,
        rocm_version=None,
        correct=None,
        warmup_iters=None,
        repeat_iters=None,
        benchmark_status=status,
        skip_reason=reason,
        model=shape.model,
        stage=shape.stage,
        dtype=shape.dtype,
        op_type=shape.op_type,
        args=shape.args,
    )


def evidence(
    work: Plan, changes: Mapping[str, CodegenChange], pages: Mapping[str, str] | None = None
) -> dict[str, CodeEvidence]:
    """What the comparison says of each shape that has code, by shape_id; `pages` are those of the compile keys."""
    page_of = pages or {}
    return {
        shape_id: _evidence(changes[case.compile_key], page=page_of.get(case.compile_key, ""))
        for shape_id, case in work.cases.items()
        if case.compile_key in changes
    }


def _evidence(change: CodegenChange, *, page: str) -> CodeEvidence:
    return CodeEvidence(
        compile_key=change.compile_key,
        verdict=change.verdict,
        findings=tuple(finding.text for finding in change.findings),
        base=_side(change.base),
        head=_side(change.head),
        page=page,
    )


def _side(one: CodegenRecord | None) -> CodeSide | None:
    if one is None or one.metrics is None:
        return None
    numbers: Metrics = one.metrics
    return CodeSide(
        vgpr=numbers.vgpr,
        agpr=numbers.agpr,
        sgpr=numbers.sgpr,
        spills=numbers.spills,
        scratch_bytes=numbers.scratch_bytes,
        lds_bytes=numbers.lds_bytes,
        waves_per_simd=numbers.waves_per_simd,
        instructions=numbers.instructions,
        isa_sha=one.isa_sha or "",
    )
