"""Knows how to read AMDGPU assembly text: resources from its metadata, instruction counts and hashes from its body."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gate.model.codegen import Metrics
from gate.model.occupancy import waves_per_simd

_METADATA = re.compile(r"^\s*\.amdgpu_metadata\s*$(.*?)^\s*\.end_amdgpu_metadata\s*$", re.DOTALL | re.MULTILINE)
_KERNEL_ITEM = re.compile(r"^  - (.*?)(?=^  - |^\S|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(?:    )?\.(\w+):[ \t]+(\S+)", re.MULTILINE)
_LABEL = re.compile(r"^([A-Za-z_.$][\w.$@]*):")
_SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]*")
_COMMENT = re.compile(r"\s*(?:;|//).*$")
_FULL_WAIT = re.compile(r"\bvmcnt\(0\)")
# Groups that are counted by their own mnemonic: matrix steps by kind, memory by width, and what orders them.
_COUNTED = re.compile(r"^(v_s?mfmac?_|buffer_|global_|flat_|scratch_|ds_|s_barrier)")


class IsaError(ValueError):
    """The text is not a whole AMDGPU assembly: no metadata, or a metadata field is missing."""


@dataclass(frozen=True)
class IsaReading:
    """Kernel symbols joined by "+", their numbers, and SHA-256 (16 hex digits) of the text and of the opcode counts."""

    kernel: str
    metrics: Metrics
    isa_sha: str
    opcode_sha: str


def instructions(text: str) -> Iterator[str]:
    """Yield the instruction lines of the text, one blank between tokens, with labels by order of definition.

    Comments and directives are dropped, and every symbol the text defines becomes L0, L1, ...: a kernel's or a basic
    block's name says nothing about the code.
    """
    lines = [line for line in (_COMMENT.sub("", raw).strip() for raw in text.split("\n")) if line]
    names = [match.group(1) for match in map(_LABEL.match, lines) if match]
    renamed = {name: f"L{index}" for index, name in enumerate(dict.fromkeys(names))}
    for line in lines:
        if line.startswith(".") or _LABEL.match(line):
            continue
        words = _SYMBOL.sub(lambda match: renamed.get(match.group(0), match.group(0)), line)
        yield " ".join(words.split())


def body(text: str) -> str:
    """Return the text without its metadata block, whose YAML is neither directive nor instruction."""
    return _METADATA.sub("", text)


def instruction_mix(lines: Iterable[str]) -> dict[str, int]:
    """Count the groups worth comparing, sorted by name; `valu`, `salu` and `smem` are the totals of the rest."""
    mix: Counter[str] = Counter()
    for line in lines:
        opcode = line.split(" ", 1)[0]
        if _COUNTED.match(opcode):
            mix[opcode] += 1
        elif opcode.startswith("v_"):
            mix["valu"] += 1
        elif opcode.startswith(("s_load", "s_buffer_load")):
            mix["smem"] += 1
        elif opcode == "s_waitcnt":
            mix["s_waitcnt"] += 1
            mix["s_waitcnt vmcnt(0)"] += 1 if _FULL_WAIT.search(line) else 0
        elif opcode.startswith("s_"):
            mix["salu"] += 1
    return {name: mix[name] for name in sorted(mix) if mix[name]}


def kernel_fields(text: str) -> list[dict[str, str]]:
    """Return the metadata of each kernel in the text, by LLVM's field names (AMDGPUUsage, code object metadata)."""
    fields = [dict(_FIELD.findall(item)) for block in _METADATA.findall(text) for item in _KERNEL_ITEM.findall(block)]
    return [kernel for kernel in fields if "vgpr_count" in kernel]


def read_isa(text: str, arch: str = "gfx950") -> IsaReading:
    """Read one assembly text. Several kernels give one reading: it is what one launcher costs.

    Registers, scratch, LDS and workgroup size are then the largest of any kernel, waves the fewest, spills and
    instructions the sum. Raises IsaError when the metadata is absent or incomplete.
    """
    kernels = kernel_fields(text)
    if not kernels:
        raise IsaError("the assembly has no kernel metadata")
    lines = list(instructions(body(text)))
    try:
        metrics = _metrics(kernels, lines, arch)
    except KeyError as missing:
        raise IsaError(f"the kernel metadata has no .{missing.args[0]}") from None
    opcodes = Counter(line.split(" ", 1)[0] for line in lines)
    return IsaReading(
        kernel="+".join(kernel.get("name", "?") for kernel in kernels),
        metrics=metrics,
        isa_sha=_sha("\n".join(lines)),
        opcode_sha=_sha("\n".join(f"{name} {count}" for name, count in sorted(opcodes.items()))),
    )


def _metrics(kernels: list[dict[str, str]], lines: list[str], arch: str) -> Metrics:
    def each(name: str) -> list[int]:
        return [int(kernel[name]) for kernel in kernels]

    waves = [
        waves_per_simd(vgpr=vgpr, lds_bytes=lds, workgroup_size=lanes, arch=arch)
        for vgpr, lds, lanes in zip(
            each("vgpr_count"), each("group_segment_fixed_size"), each("max_flat_workgroup_size"), strict=True
        )
    ]
    return Metrics(
        vgpr=max(each("vgpr_count")),
        agpr=max(int(kernel.get("agpr_count", "0")) for kernel in kernels),
        sgpr=max(each("sgpr_count")),
        vgpr_spills=sum(each("vgpr_spill_count")),
        sgpr_spills=sum(each("sgpr_spill_count")),
        scratch_bytes=max(each("private_segment_fixed_size")),
        lds_bytes=max(each("group_segment_fixed_size")),
        workgroup_size=max(each("max_flat_workgroup_size")),
        waves_per_simd=min(waves),
        instructions=len(lines),
        mix=instruction_mix(lines),
    )


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
