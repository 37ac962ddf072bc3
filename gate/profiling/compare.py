"""The profile beside the machine-code record of the same key: which numbers agree, and why one may differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gate.model.codegen import CodegenRecord, Metrics
from gate.model.diagnosis import CodeComparison, CodeFact, ProfiledKernel
from gate.model.occupancy import allocated_vgprs

# rocprofv3 writes LDS in its CSV as a multiple of this many bytes.
LDS_STEP = 512


def with_code(
    kernels: Sequence[ProfiledKernel], record: CodegenRecord | None, *, arch: str, lds_exact: bool
) -> tuple[CodeComparison | None, tuple[str, ...]]:
    """The comparison, and notes on why there is none.

    A record holds what one launcher costs, the largest of its kernels: a call of several kernels is compared by its
    largest too.
    """
    if record is None:
        return None, ()
    if record.metrics is None:
        return None, (f"the machine-code record of {record.compile_key} is {record.status}: nothing to compare",)
    if arch and arch != record.arch:
        return None, (f"the machine-code record is for {record.arch}, the profile of {arch}: not compared",)
    facts = tuple(_facts(kernels, record.metrics, lds_exact=lds_exact))
    agrees = bool(facts) and all(fact.agrees for fact in facts)
    return CodeComparison(compile_key=record.compile_key, agrees=agrees, facts=facts, isa_sha=record.isa_sha), ()


def _facts(kernels: Sequence[ProfiledKernel], code: Metrics, *, lds_exact: bool) -> Iterator[CodeFact]:
    registers = [kernel.registers for kernel in kernels if kernel.registers.vgpr is not None]
    if registers:
        largest = max(registers, key=lambda one: one.vgpr or 0)
        reported = (largest.vgpr_reported or 0) + (largest.agpr_reported or 0)
        aside = allocated_vgprs(code.vgpr)
        told = f"reported {reported} x {largest.factor}; the code uses {code.vgpr}, in granules of 8 that is {aside}"
        yield _fact("VGPR set aside", largest.vgpr or 0, aside, told)
    lds = [kernel.lds_bytes for kernel in kernels if kernel.lds_bytes is not None]
    if lds:
        recorded = code.lds_bytes if lds_exact else -(-code.lds_bytes // LDS_STEP) * LDS_STEP
        told = f"the code asks for {code.lds_bytes} bytes"
        if not lds_exact:
            told += f", which the CSV rounds up to {recorded}"
        if max(lds) > recorded:
            told += "; what is asked for at launch is not in the code"
        yield _fact("LDS bytes", max(lds), recorded, told)
    scratch = [kernel.scratch_bytes for kernel in kernels if kernel.scratch_bytes is not None]
    if scratch:
        yield _fact("scratch bytes a lane", max(scratch), code.scratch_bytes, "bytes a lane")
    lanes = [math.prod(kernel.workgroup) for kernel in kernels if kernel.workgroup is not None]
    if lanes:
        yield _fact("workgroup", max(lanes), code.workgroup_size, "lanes")


def _fact(what: str, profiled: int, recorded: int, told: str) -> CodeFact:
    agrees = profiled == recorded
    verb = "agree" if agrees else "differ"
    words = f"{what}: profile {profiled}, code {recorded}: {verb} ({told})"
    return CodeFact(what=what, profiled=profiled, recorded=recorded, agrees=agrees, words=words)
