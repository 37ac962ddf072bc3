"""Knows the outside files that the importers read, as far as `gate validate` must tell them and check them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping

from gate.ledgers import aiter_model_shapes
from gate.model.problem import Problem
from gate.schemas.strict import loads

Checked = tuple[int, tuple[Problem, ...], str]


def _aiter(file: str, data: bytes) -> Checked:
    try:
        document = loads(data)
    except ValueError as error:
        return 0, (Problem(what=str(error), file=file, fix="the file is cut off or not strict JSON"),), ""
    found = aiter_model_shapes.read(document, file=file, sweep=aiter_model_shapes.Sweep(m_values=(1,)))
    return sum(found.counts.values()), found.problems, "AITER model shapes"


def _toml(file: str, data: bytes) -> Checked:
    try:
        return len(tomllib.loads(data.decode("utf-8"))), (), "TOML, syntax only"
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return 0, (Problem(what=f"not valid TOML: {error}", file=file),), ""


CHECKS: Mapping[str, Callable[[str, bytes], Checked]] = {
    "aiter_model_shapes": _aiter,
    "toml": _toml,
}


def check(kind: str, *, file: str, data: bytes) -> Checked:
    """Records, problems and a note on a source file; an empty or unknown file is a problem."""
    if kind in CHECKS:
        return CHECKS[kind](file, data)
    if kind == "empty":
        return 0, (Problem(what="the file is empty", file=file),), ""
    what = "its content is none of the contracts, nor a source that an importer reads"
    return 0, (Problem(what=what, file=file, fix="see gate/schemas for the contracts"),), ""
