"""How several Triton launches in a row become one kernel: the calls in order, and the memory between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gate.replay.op import Case, Tensors
from gate.replay.provider import KernelAdapter
from gate.replay.providers.triton.calls import Call, on_paper
from gate.replay.providers.triton.common import version


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The calls of one launch in order, and what they write beyond the op's outputs."""

    calls: tuple[Call, ...]
    between: tuple[Any, ...] = ()


class Staged(KernelAdapter):
    """A kernel of several calls; a state is its launch and the memory between them."""

    def launch(self, state: Any) -> None:
        for launcher, call in state[0]:
            launcher(*call.arguments, **call.options)

    def workspaces(self, state: Any) -> tuple[Any, ...]:
        return tuple(state[1])


def staged_kernel(
    *, op: str, dtypes: Sequence[str], detail: str, **data: Any
) -> Callable[[Callable[[Case, Tensors], Plan]], Staged]:
    """Makes a provider's kernel out of a function `(case, tensors) -> Plan`; `data` are KernelAdapter's fields."""

    def wrap(plan_of: Callable[[Case, Tensors], Plan]) -> Staged:
        def compile_it(case: Case) -> None:
            for call in plan_of(case, on_paper(case)).calls:
                call.function.warmup(*call.arguments, grid=call.grid, **call.options)

        def bind(case: Case, tensors: Tensors) -> Any:
            plan = plan_of(case, tensors)
            return [(call.function[call.grid], call) for call in plan.calls], plan.between

        return Staged(
            bind=bind,
            op_type=op,
            provider="triton",
            dtypes=tuple(dtypes),
            detail=detail,
            compiler=compile_it,
            version=version,
            **data,
        )

    return wrap
