"""Knows how base and head of one kernel stand beside each other: numbers that differ, and their hot loops aligned."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import msgspec

from gate.codegen.loops import Loop
from gate.model.codegen import CodegenRecord, Metrics

RESOURCES: tuple[tuple[str, str], ...] = (
    ("vgpr", "VGPRs"),
    ("agpr", "AGPRs"),
    ("sgpr", "SGPRs"),
    ("vgpr_spills", "VGPR spills"),
    ("sgpr_spills", "SGPR spills"),
    ("scratch_bytes", "scratch, bytes"),
    ("lds_bytes", "LDS, bytes"),
    ("workgroup_size", "workgroup, lanes"),
    ("waves_per_simd", "waves per SIMD"),
    ("instructions", "instructions"),
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One number on both sides; absent where the side has none."""

    name: str
    base: int | None
    head: int | None

    @property
    def differs(self) -> bool:
        """Whether the two sides disagree."""
        return self.base != self.head


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of text on both sides; a side without it is empty. `changed` marks lines that are not equal."""

    base: str
    head: str
    changed: bool


def resources(base: CodegenRecord | None, head: CodegenRecord | None) -> tuple[Row, ...]:
    """The resources of both sides, in a fixed order."""
    return tuple(Row(name=title, base=_number(base, name), head=_number(head, name)) for name, title in RESOURCES)


def mix(base: CodegenRecord | None, head: CodegenRecord | None) -> tuple[Row, ...]:
    """The counted instruction groups of both sides, by name."""
    old, new = _mix(base), _mix(head)
    return tuple(Row(name=name, base=old.get(name, 0), head=new.get(name, 0)) for name in sorted(old | new))


def aligned(base: Loop | None, head: Loop | None) -> tuple[Line, ...]:
    """The two loops line by line, equal instructions on one line.

    Registers are left out of the comparison: another allocation of the same instructions is no difference to see.
    """
    old, new = (base.lines if base else ()), (head.lines if head else ())
    match = difflib.SequenceMatcher(a=[_shape(line) for line in old], b=[_shape(line) for line in new], autojunk=False)
    found: list[Line] = []
    for tag, a, b, c, d in match.get_opcodes():
        left, right = old[a:b], new[c:d]
        for index in range(max(len(left), len(right))):
            found.append(Line(base=_at(left, index), head=_at(right, index), changed=tag != "equal"))
    return tuple(found)


def _shape(line: str) -> str:
    """A line's opcode; labels are alike."""
    return "label" if line.endswith(":") else line.split(" ", 1)[0]


def _at(lines: Sequence[str], index: int) -> str:
    return lines[index] if index < len(lines) else ""


def _number(record: CodegenRecord | None, name: str) -> int | None:
    if record is None or record.metrics is None:
        return None
    value: int = getattr(record.metrics, name)
    return value


def _mix(record: CodegenRecord | None) -> dict[str, int]:
    numbers: Metrics | None = record.metrics if record else None
    return dict(numbers.mix) if numbers else {}
