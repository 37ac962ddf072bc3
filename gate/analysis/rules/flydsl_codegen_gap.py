"""flydsl_codegen_gap: the machine code itself holds the reason: spills, scratch, lost waves, worse than before."""

from __future__ import annotations

from gate.analysis import profiled
from gate.analysis.case import Case, Category
from gate.model.decision import CodeEvidence, CodeSide
from gate.model.text import counted

# Two waves a SIMD hide almost no latency on gfx950, which holds eight.
FEW_WAVES = 2


def rule(case: Case) -> Category | None:
    """What the machine-code comparison found, what the head code alone shows, or what a profiler saw of it."""
    head = None if case.code is None else case.code.head
    found = (case.code is not None and _compared(case.code)) or profiled.of_code(case.profile)
    if not found:
        return None
    standing = f"; {case.behind}" if case.behind else ""
    return Category(name="flydsl_codegen_gap", evidence=f"{found}{standing}", likely_fix=_fix(head, found))


def _compared(code: CodeEvidence) -> str:
    if code.verdict in ("fail", "warn") and code.findings:
        return code.findings[0]
    return "" if code.head is None else _bad(code.head)


def _bad(side: CodeSide) -> str:
    if side.spills:
        return counted(side.spills, "register spills", "registers spill")
    if side.scratch_bytes:
        return f"{side.scratch_bytes} bytes of scratch a lane"
    if 0 < side.waves_per_simd <= FEW_WAVES:
        return f"only {counted(side.waves_per_simd, 'wave')} a SIMD at {side.vgpr} VGPR"
    return ""


def _fix(side: CodeSide | None, found: str) -> str:
    if (side is not None and (side.spills or side.scratch_bytes)) or "scratch" in found:
        return "use fewer live values or a smaller tile, so that nothing spills"
    return "compare the ISA of base and head; lower the register count or keep the loads wide"
