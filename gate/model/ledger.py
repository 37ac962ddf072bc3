"""What a ledger is: the shapes in order, and what was refused while reading them."""

from __future__ import annotations

import msgspec

from gate.model.problem import Problem
from gate.model.shape import Shape


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The shapes of one or several ops; `problems` names each row that could not be used, with file and line."""

    shapes: tuple[Shape, ...]
    problems: tuple[Problem, ...] = ()
