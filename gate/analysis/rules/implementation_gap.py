"""implementation_gap: the kernel has a faster path that this shape does not take, or too few workgroups."""

from __future__ import annotations

from gate.analysis import physics, profiled
from gate.analysis.case import Case, Category
from gate.analysis.fast_path import fast_path
from gate.model.text import counted

# Ops of one workgroup a row: fewer rows than compute units leave the rest idle.
ROW_PARALLEL = frozenset({"rmsnorm", "layernorm", "softmax"})


def rule(case: Case) -> Category | None:
    """A slow path, several kernels a call, or an idle GPU while the best baseline is faster."""
    path = fast_path(case.shape, case.outcome)
    if path is not None and not path.taken:
        return Category(name="implementation_gap", evidence=f"{path.evidence}; {case.behind}", likely_fix=path.remedy)
    seen = profiled.of_launches(case.profile)
    if "kernels a call" in seen:
        fix = "fuse the kernels of a call, or fold the small ones into the large one"
        return Category(name="implementation_gap", evidence=f"{seen}; {case.behind}", likely_fix=fix)
    idle = seen or _idle(case)
    if not idle:
        return None
    return Category(
        name="implementation_gap", evidence=f"{idle}; {case.behind}", likely_fix="split a row over several workgroups"
    )


def _idle(case: Case) -> str | None:
    device = physics.gpu(case.outcome.gpu if case.outcome else None)
    rows = case.shape.args.get("M")
    if device is None or case.shape.op_type not in ROW_PARALLEL or not isinstance(rows, int) or rows >= device.cus:
        return None
    return f"{counted(rows, 'row occupies', 'rows occupy')} {rows} of {device.cus} compute units"
