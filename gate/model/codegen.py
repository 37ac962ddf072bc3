"""What compiling a kernel without a GPU yields: the code in numbers, the toolchain, and what changed between two."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from gate.model.shape import OpName

CodegenStatus = Literal["ok", "failed", "timeout", "crashed", "unsupported"]
CodegenSeverity = Literal["fail", "warn", "info"]
CodegenVerdict = Literal["fail", "warn", "info", "same", "new", "missing", "fixed", "still_failing"]
CodegenCode = Literal[
    "no_longer_compiles",
    "does_not_compile",
    "not_compiled",
    "spills_appeared",
    "spills_grew",
    "scratch_appeared",
    "lds_over_limit",
    "wave_lost",
    "instructions_grew",
    "vector_loads_lost",
    "vmcnt0_doubled",
    "agprs_appeared",
    "resources_differ",
    "launch_differs",
    "text_differs",
]
CODEGEN_VERDICTS: tuple[str, ...] = get_args(CodegenVerdict)
# The one line every report of these numbers carries.
CODEGEN_DISCLAIMER = (
    "Machine code only: it says nothing about speed, about how often an instruction runs, "
    "or about correctness on hardware."
)

Constexpr = int | float | str | bool


class Toolchain(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what code comes out, besides the case itself.

    `llvm` is the version and commit inside the FlyDSL wheel, "unknown" where the wheel does not say. `flydsl_sha` is
    the first 16 hex digits of SHA-256 over FlyDSL's installed sources and native libraries: an edited FlyDSL of the
    same version is another toolchain.
    `kernels_sha` is the first 16 hex digits of SHA-256 over the kernel sources, `device_libs` over the bitcode of
    ROCm's device libraries, None where there are none (only kernels that call them need them).
    """

    flydsl_version: str
    llvm: str
    kernels: str
    kernels_sha: str
    arch: str
    flydsl_sha: str | None = None
    flydsl_commit: str | None = None
    kernels_commit: str | None = None
    triton_version: str | None = None
    device_libs: str | None = None


# What a register file, a workgroup or a text of instructions can hold at all; more is a damaged record.
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
# A SIMD of CDNA holds eight waves at most.
Waves = Annotated[int, msgspec.Meta(ge=0, le=8)]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The resources and the instructions of one compiled case.

    Registers are per lane (`vgpr` is the unified total, AGPRs included), sizes in bytes per workgroup (`lds_bytes`,
    static only) or per lane (`scratch_bytes`), `workgroup_size` in lanes; instructions are counted in the text, not
    as executed. `mix` counts the groups named in `gate.codegen.isa`.
    """

    vgpr: Count
    agpr: Count
    sgpr: Count
    vgpr_spills: Count
    sgpr_spills: Count
    scratch_bytes: Count
    lds_bytes: Count
    workgroup_size: Count
    waves_per_simd: Waves
    instructions: Count
    mix: dict[str, Count]

    @property
    def spills(self) -> int:
        """Spilled registers, vector and scalar together."""
        return self.vgpr_spills + self.sgpr_spills


class CodegenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One compile key under one toolchain. `metrics`, `kernel` and the hashes are there exactly when status is ok.

    `source_sha` covers the kernel's own files and all they import, where the kernels are a FlyDSL checkout: equal
    hashes under one compiler mean equal code. `launch_sha` covers what the host does around the kernel: grid, block and
    arguments, which the machine code does not hold. `compile_seconds` is wall time on the machine that compiled: it
    belongs in no byte-stable output.
    """

    schema: Literal["gate.codegen/1"] = "gate.codegen/1"
    compile_key: str
    op_type: OpName
    dtype: str
    constexprs: dict[str, Constexpr]
    status: CodegenStatus
    toolchain: Toolchain
    arch: str
    provider: str = "flydsl"
    error: str | None = None
    kernel: str | None = None
    metrics: Metrics | None = None
    isa_sha: str | None = None
    opcode_sha: str | None = None
    source_sha: str | None = None
    launch_sha: str | None = None
    compile_seconds: float | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for an `ok` record that lacks what was compiled; while decoding, it is refused."""
        if self.status == "ok":
            absent = [name for name in ("kernel", "metrics", "isa_sha") if not getattr(self, name)]
            if absent:
                raise ValueError(f"status is ok, but it has no {', '.join(absent)}")


class CodegenFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that changed: a stable code, how bad it is, and one sentence with the numbers."""

    code: CodegenCode
    severity: CodegenSeverity
    text: str


class CodegenChange(msgspec.Struct, frozen=True, kw_only=True):
    """Base against head for one compile key; `base` or `head` is absent where that side has no record."""

    compile_key: str
    verdict: CodegenVerdict
    findings: tuple[CodegenFinding, ...] = ()
    base: CodegenRecord | None = None
    head: CodegenRecord | None = None

    @property
    def same_code(self) -> bool:
        """Whether both sides compiled and launch the same: a GPU run of the pair would be an A/A sample."""
        return (
            self.base is not None
            and self.head is not None
            and self.base.isa_sha is not None
            and self.base.isa_sha == self.head.isa_sha
            and self.verdict == "same"
        )


class CodegenThresholds(msgspec.Struct, frozen=True, kw_only=True):
    """When a change of the code is worth a word.

    `instruction_growth` is a fraction; `vmcnt0_factor` multiplies the count of full waits on memory;
    `lds_limit_bytes` is what one workgroup may use (gfx950 has 160 KiB per compute unit).
    `occupancy_bound` names the ops where a lost wave fails instead of warns. The default holds the ops that stream
    memory: they hide latency behind other waves, while a GEMM tile trades waves for registers on purpose.
    """

    instruction_growth: float = 0.05
    vmcnt0_factor: float = 2.0
    lds_limit_bytes: int = 163840
    occupancy_bound: frozenset[str] = frozenset({"rmsnorm", "softmax", "vec_add"})
