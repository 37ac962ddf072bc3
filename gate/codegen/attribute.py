"""Knows which of the two moved, the kernels or the compiler, from the four ways to combine base's and head's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from gate.model.codegen import CodegenRecord

Cause = Literal["same", "kernels", "compiler", "both", "only_together", "undecided"]
CAUSES: tuple[str, ...] = get_args(Cause)


class Corners(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one compile key: kernels of base or head, compiled by base's or head's compiler."""

    base_base: CodegenRecord | None
    head_kernels: CodegenRecord | None
    head_compiler: CodegenRecord | None
    head_head: CodegenRecord | None


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Which side a change of code comes from, in one word and one sentence."""

    compile_key: str
    cause: Cause
    text: str


def attribute(key: str, corners: Corners) -> Attribution:
    """Return what made the code of one key differ between base and head.

    Each side counts as moved when replacing it alone, from base, changes the code. A cell that did not compile is
    compared by its status and message. Where head's kernels do not compile with base's compiler, the compiler's part
    is read from base's kernels alone.
    """
    base, head = _code(corners.base_base), _code(corners.head_head)
    kernels, compiler = _code(corners.head_kernels), _code(corners.head_compiler)
    if None in (base, head, kernels, compiler):
        return Attribution(compile_key=key, cause="undecided", text="one of the four was not compiled.")
    by_kernels, by_compiler = kernels != base, compiler != base
    if base == head:
        text = "the code is equal." if not (by_kernels or by_compiler) else "the two changes undo each other."
        return Attribution(compile_key=key, cause="same", text=text)
    if by_kernels and by_compiler:
        return Attribution(compile_key=key, cause="both", text="either change alone changes the code.")
    if by_kernels:
        return Attribution(compile_key=key, cause="kernels", text=_only("kernels", head == kernels))
    if by_compiler:
        return Attribution(compile_key=key, cause="compiler", text=_only("compiler", head == compiler))
    return Attribution(compile_key=key, cause="only_together", text="neither change alone changes the code.")


def attribute_all(
    base_base: Mapping[str, CodegenRecord],
    head_kernels: Mapping[str, CodegenRecord],
    head_compiler: Mapping[str, CodegenRecord],
    head_head: Mapping[str, CodegenRecord],
) -> tuple[Attribution, ...]:
    """Attribute every compile key that head or base has, head's order first."""
    keys = dict.fromkeys([*head_head, *base_base])
    return tuple(
        attribute(
            key,
            Corners(
                base_base=base_base.get(key),
                head_kernels=head_kernels.get(key),
                head_compiler=head_compiler.get(key),
                head_head=head_head.get(key),
            ),
        )
        for key in keys
    )


def _code(record: CodegenRecord | None) -> str | None:
    if record is None:
        return None
    return record.isa_sha or f"{record.status}: {record.error}"


def _only(side: str, whole: bool) -> str:
    rest = "" if whole else ", and the other side changes it further once this one has moved"
    return f"the {side} alone moved it{rest}."
