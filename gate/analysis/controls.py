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


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """log(head/base) of one baseline on one shape."""

    provider: str
    op_type: str
    log_ratio: float
    same_session: bool


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """`shifts`: by op, the median log(head/base) of controls of separate sessions, where it is more than the policy
    allows; `checked`: ops whose controls could say so; `stale`: baselines whose own version changed."""

    movements: tuple[ControlMovement, ...]
    shifts: dict[str, float]
    checked: frozenset[str]
    stale: tuple[str, ...]


def compare(cells: Iterable[Cell], policy: Policy) -> Controls:
    """The movement of every pinned baseline of the cells."""
    samples: list[Sample] = []
    stale: set[str] = set()
    pinned: dict[str, bool] = {}
    for cell in cells:
        for provider in cell.rivals:
            old, new = cell.base[provider], cell.head[provider]
            pinned[provider] = pinned.get(provider, False) or new.state != "absent"
            sample = _sample(cell.shape.op_type, provider, old, new, policy, stale)
            if sample is not None:
                samples.append(sample)
    checked = _medians(samples, policy)
    moved = math.log1p(policy.controls.moved)
    return Controls(
        movements=tuple(_movements(samples, pinned, policy)),
        shifts={op: shift for op, shift in sorted(checked.items()) if abs(shift) > moved},
        checked=frozenset(checked),
        stale=tuple(sorted(stale)),
    )


def _sample(op_type: str, provider: str, old: Arm, new: Arm, policy: Policy, stale: set[str]) -> Sample | None:
    was, now = old.outcome, new.outcome
    if old.time_us is None or new.time_us is None or was is None or now is None:
        return None
    if _changed(was, now):
        stale.add(provider)
        return None
    if was.timing_method != now.timing_method or was.cache_state != now.cache_state:
        return None
    if _of_stack(policy.environment.incomparable)(was) != _of_stack(policy.environment.incomparable)(now):
        return None
    return Sample(
        provider=provider,
        op_type=op_type,
        log_ratio=math.log(new.time_us) - math.log(old.time_us),
        same_session=was.session_id is not None and was.session_id == now.session_id,
    )


@lru_cache(maxsize=8)
def _of_stack(fields: tuple[str, ...]) -> Callable[[AnyOutcome], Any]:
    """Reads the fields that must be equal, in one call."""
    return attrgetter(*fields) if fields else lambda outcome: ()


def _changed(was: AnyOutcome, now: AnyOutcome) -> bool:
    """Whether a baseline is another version: its own commit, or the library it is made with."""
    if was.baseline_commit != now.baseline_commit:
        return True
    if was.provider == "pytorch":
        return was.torch_version != now.torch_version
    return "triton" in was.provider and was.triton_version != now.triton_version


def _medians(samples: Iterable[Sample], policy: Policy) -> dict[str, float]:
    by_op: dict[str, list[float]] = {}
    for sample in samples:
        if not sample.same_session:
            by_op.setdefault(sample.op_type, []).append(sample.log_ratio)
    return {op: float(np.median(logs)) for op, logs in by_op.items() if len(logs) >= policy.controls.min_rows}


def _movements(samples: Iterable[Sample], pinned: dict[str, bool], policy: Policy) -> Iterator[ControlMovement]:
    logs: dict[str, list[float]] = {}
    for sample in samples:
        logs.setdefault(sample.provider, []).append(sample.log_ratio)
    for provider, present in pinned.items():
        values = logs.get(provider, [])
        mean = math.fsum(values) / len(values) if values else None
        yield ControlMovement(
            provider=provider,
            n=len(values),
            ratio=None if mean is None else math.exp(mean),
            moved=mean is not None and abs(mean) > math.log1p(policy.controls.moved),
            absent=not present,
        )
