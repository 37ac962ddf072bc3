"""Which of several changes of machine code is the worst: one order for texts and printed commands."""

from __future__ import annotations

from gate.model.decision import CodeEvidence, CodeSide


def severity(code: CodeEvidence) -> tuple[int, ...]:
    """How bad a change is among those of one verdict, smallest first: what does not compile, then by registers that
    spill, bytes of scratch and waves that are lost, each beside base."""
    if code.head is None:
        return (-1, 0, 0, 0)
    spills, scratch, waves = (
        _value(code.head, field) - _value(code.base, field) for field in ("spills", "scratch_bytes", "waves_per_simd")
    )
    return (0, -max(spills, 0), -max(scratch, 0), min(waves, 0) if code.base is not None else 0)


def _value(side: CodeSide | None, field: str) -> int:
    return 0 if side is None else int(getattr(side, field))
