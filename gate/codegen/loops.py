"""Knows where a kernel spends its time, as far as text can tell: its loops, and which of them is the hot one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from gate.codegen.isa import body

_LABEL = re.compile(r"^([A-Za-z_.$][\w.$@]*):")
_BRANCH = re.compile(r"^s_c?branch\w*\s+([A-Za-z_.$][\w.$@]*)")
_COMMENT = re.compile(r"\s*(?:;|//).*$")


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """One loop of the text: its lines from the label to the jump back, one blank between tokens."""

    lines: tuple[str, ...]

    @property
    def matrix_steps(self) -> int:
        """Matrix instructions in one round."""
        return sum(line.startswith(("v_mfma", "v_smfma")) for line in self.lines)


def statements(text: str) -> list[str]:
    """Instructions and labels in order, without directives and comments, one blank between tokens."""
    lines = (" ".join(_COMMENT.sub("", raw).split()) for raw in body(text).split("\n"))
    return [line for line in lines if line and (_LABEL.match(line) or not line.startswith("."))]


def loops(text: str) -> list[Loop]:
    """The innermost loops of an assembly text: a jump back to a label, with no other such jump inside."""
    lines = statements(text)
    spans = list(_jumps_back(lines))
    inner = [
        span
        for span in spans
        if not any(other != span and span[0] <= other[0] and other[1] <= span[1] for other in spans)
    ]
    return [Loop(lines=tuple(lines[start : end + 1])) for start, end in inner]


def hot_loop(text: str) -> Loop | None:
    """The loop that does most work a round: most matrix instructions, then most instructions. None without loops."""
    return max(loops(text), key=lambda loop: (loop.matrix_steps, len(loop.lines)), default=None)


def _jumps_back(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    defined: dict[str, int] = {}
    for index, line in enumerate(lines):
        label = _LABEL.match(line)
        if label:
            # Labels repeat when several modules are joined; a jump back means the nearest one above.
            defined[label.group(1)] = index
        jump = _BRANCH.match(line)
        if jump and jump.group(1) in defined:
            yield defined[jump.group(1)], index
