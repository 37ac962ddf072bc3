"""The control arm: how far the untouched baselines moved between base and head, and which are absent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from gate.analysis.arm import Arm
from gate.analysis.cells import Cell
from gate.model.decision import ControlMovement
from gate.model.outcome import AnyOutcome
from gate.model.policy import Policy


class Moves:
    """log(head/base) of the baselines: by provider, and by op where base and head are separate sessions."""

    def __init__(self) -> None:
        self.pinned: dict[str, bool] = {}
        self.stale: set[str] = set()
        self.by_provider: dict[str, list[float]] = {}
        self.by_op: dict[str, list[float]] = {}

    def add(self, provider: str, op_type: str, logs: Iterable[float], *, same_session: bool) -> None:
        """More moves of one baseline on shapes of one op."""
        taken = list(logs)
        self.by_provider.setdefault(provider, []).extend(taken)
        if not same_session:
            self.by_op.setdefault(op_type, []).extend(taken)

    def pin(self, provider: str, *, present: bool) -> None:
        """That a baseline is pinned, and whether head has it."""
        self.pinned[provider] = self.pinned.get(provider, False) or present


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """`shifts`: by op, the median log(head/base) of controls of separate sessions, where it is more than the policy
    allows; `checked`: ops whose controls could say so; `stale`: baselines whose own version changed."""

    movements: tuple[ControlMovement, ...]
    shifts: dict[str, float]
    checked: frozenset[str]
    stale: tuple[str, ...]


def compare(cells: Iterable[Cell], policy: Policy, moves: Moves | None = None) -> Controls:
    """The movement of every pinned baseline of the cells, and of those in `moves`."""
    found = Moves() if moves is None else moves
    for cell in cells:
        for provider in cell.rivals:
            old, new = cell.base[provider], cell.head[provider]
            found.pin(provider, present=new.state != "absent")
            _take(found, cell.shape.op_type, provider, old, new, policy)
    checked = {op: float(np.median(logs)) for op, logs in found.by_op.items() if len(logs) >= policy.controls.min_rows}
    moved = math.log1p(policy.controls.moved)
    return Controls(
        movements=tuple(_movements(found, policy)),
        shifts={op: shift for op, shift in sorted(checked.items()) if abs(shift) > moved},
        checked=frozenset(checked),
        stale=tuple(sorted(found.stale)),
    )


def _take(found: Moves, op_type: str, provider: str, old: Arm, new: Arm, policy: Policy) -> None:
    was, now = old.outcome, new.outcome
    if old.time_us is None or new.time_us is None or was is None or now is None:
        return
    if changed(was, now):
        found.stale.add(provider)
    elif tells(was, now, policy):
        log = math.log(new.time_us) - math.log(old.time_us)
        found.add(
            provider, op_type, (log,), same_session=was.session_id is not None and was.session_id == now.session_id
        )


def tells(was: AnyOutcome, now: AnyOutcome, policy: Policy) -> bool:
    """Whether two rows of one baseline were measured in one way on one stack."""
    if was.timing_method != now.timing_method or was.cache_state != now.cache_state:
        return False
    fields = _of_stack(policy.environment.incomparable)
    return bool(fields(was) == fields(now))


@lru_cache(maxsize=8)
def _of_stack(fields: tuple[str, ...]) -> Callable[[AnyOutcome], Any]:
    """Reads the fields that must be equal, in one call."""
    return attrgetter(*fields) if fields else lambda outcome: ()


def changed(was: AnyOutcome, now: AnyOutcome) -> bool:
    """Whether a baseline is another version: its own commit, or the library it is made with."""
    if was.baseline_commit != now.baseline_commit:
        return True
    if was.provider == "pytorch":
        return was.torch_version != now.torch_version
    return "triton" in was.provider and was.triton_version != now.triton_version


def _movements(found: Moves, policy: Policy) -> Iterator[ControlMovement]:
    for provider, present in found.pinned.items():
        values = found.by_provider.get(provider, [])
        mean = math.fsum(values) / len(values) if values else None
        yield ControlMovement(
            provider=provider,
            n=len(values),
            ratio=None if mean is None else math.exp(mean),
            moved=mean is not None and abs(mean) > math.log1p(policy.controls.moved),
            absent=not present,
        )
