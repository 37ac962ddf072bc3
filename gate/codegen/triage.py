"""Knows which shapes a GPU run still has to measure when most machine code did not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from gate.codegen.keys import CompileCase, Unsupported
from gate.model.codegen import CodegenChange
from gate.model.shape import Shape

Action = Literal["run", "sample", "skip"]
SameCode = Literal["skip", "sample"]


WHY: Mapping[str, str] = {
    "new": "base has no code of it",
    "missing": "head has no code of it",
    "fixed": "it compiled in head alone",
    "still_failing": "it compiles on neither side",
}


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """What a GPU run should do with one shape, and why."""

    shape_id: str
    op_type: str
    action: Action
    reason: str
    compile_key: str | None = None


def triage(
    shapes: Iterable[Shape],
    cases: Mapping[str, CompileCase | Unsupported],
    changes: Mapping[str, CodegenChange],
    *,
    same_code: SameCode,
    samples: int,
) -> tuple[Triage, ...]:
    """Return one line per shape, in the order given.

    A shape is spared only where base and head compiled to the same text: then it is skipped, or the first `samples`
    of its op are kept as A/A pairs. A shape whose code nobody compiled is run.
    """
    kept: dict[str, int] = {}
    found = []
    for shape in shapes:
        case = cases.get(shape.shape_id)
        if not isinstance(case, CompileCase):
            reason = case.reason if isinstance(case, Unsupported) else "no case for this shape"
            found.append(_line(shape, "run", f"no code to compare: {reason}"))
            continue
        change = changes.get(case.compile_key)
        if change is None:
            found.append(_line(shape, "run", "not compiled on either side", case.compile_key))
        elif not change.same_code:
            found.append(_line(shape, "run", WHY.get(change.verdict, "the code changed"), case.compile_key))
        elif same_code == "sample" and kept.get(shape.op_type, 0) < samples:
            kept[shape.op_type] = kept.get(shape.op_type, 0) + 1
            found.append(_line(shape, "sample", "same_code", case.compile_key))
        else:
            found.append(_line(shape, "skip", "same_code", case.compile_key))
    return tuple(found)


def _line(shape: Shape, action: Action, reason: str, key: str | None = None) -> Triage:
    return Triage(shape_id=shape.shape_id, op_type=shape.op_type, action=action, reason=reason, compile_key=key)
