"""flydsl_codegen_gap: the machine code itself holds the reason: spills, scratch, lost waves, worse than before."""

from __future__ import annotations

from gate.analysis.case import Case, Category
from gate.model.decision import CodeSide

# Two waves a SIMD hide almost no latency on gfx950, which holds eight.
FEW_WAVES = 2


def rule(case: Case) -> Category | None:
    """What the machine-code comparison found, or what the head code alone shows."""
    code = case.code
    if code is None:
        return None
    if code.verdict in ("fail", "warn") and code.findings:
        found = code.findings[0]
    elif code.head is not None and (told := _bad(code.head)):
        found = told
    else:
        return None
    standing = f"; {case.behind}" if case.behind else ""
    return Category(name="flydsl_codegen_gap", evidence=f"{found}{standing}", likely_fix=_fix(code.head))


def _bad(side: CodeSide) -> str:
    if side.spills:
        return f"{side.spills} registers spill"
    if side.scratch_bytes:
        return f"{side.scratch_bytes} bytes of scratch a lane"
    if 0 < side.waves_per_simd <= FEW_WAVES:
        return f"only {side.waves_per_simd} waves a SIMD at {side.vgpr} VGPR"
    return ""


def _fix(side: CodeSide | None) -> str:
    if side is not None and (side.spills or side.scratch_bytes):
        return "use fewer live values or a smaller tile, so that nothing spills"
    return "compare the ISA of base and head; lower the register count or keep the loads wide"
