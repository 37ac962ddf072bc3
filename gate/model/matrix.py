"""What a baseline matrix is: which providers of an op are measured, which is the candidate, which are 'best'."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

ProviderName = Literal[
    "flydsl",
    "aiter",
    "aiter_triton",
    "aiter_ck",
    "aiter_asm",
    "ck",
    "triton",
    "gluon",
    "hipblaslt",
    "pytorch",
]
PROVIDERS: tuple[str, ...] = get_args(ProviderName)


class MatrixProvider(msgspec.Struct, frozen=True, kw_only=True):
    """One provider of the op. `entrypoint` is `pkg.module:Attr`; `skip_reason` says why it is disabled."""

    enabled: bool
    entrypoint: str
    provider: str
    commit_required: bool = False
    backend_visibility_required: bool = False
    skip_reason: str | None = None
    notes: str | None = None


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """The providers of one kernel. `baseline_set` names those that 'best' is taken from, all enabled if null."""

    kernel: str
    op_type: str
    dtype: str
    providers: dict[str, MatrixProvider]
    candidate_provider: str = "flydsl"
    reference_provider: str = "pytorch"
    layout_contract: Any = None
    baseline_set: tuple[str, ...] | None = None

    @property
    def baselines(self) -> tuple[str, ...]:
        """The pinned rivals of the candidate, in the matrix's order."""
        rivals = self.baseline_set if self.baseline_set is not None else self.enabled
        return tuple(name for name in rivals if name != self.candidate_provider)

    @property
    def enabled(self) -> tuple[str, ...]:
        """The providers that are to be measured, in the matrix's order."""
        return tuple(name for name, entry in self.providers.items() if entry.enabled)
