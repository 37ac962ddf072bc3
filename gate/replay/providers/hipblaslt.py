"""hipBLASLt through torch's GEMM backends, on AMD GPUs: its heuristic is asked and its first solution taken."""

from __future__ import annotations

from typing import Any

from gate.replay.op import Case, Tensors
from gate.replay.provider import KernelAdapter, Launch, kernel

HALVES = ("bf16", "f16", "fp16")
DENSE = "hipBLASLt by torch.mm, the first solution of its heuristic"
SCALED = "hipBLASLt by torch._scaled_mm with row scales, the first solution of its heuristic"
ALIGN = 16


def version() -> str | None:
    """The git commit of the torch that brings it."""
    import torch

    return str(torch.version.git_version)


def _refusal(case: Case) -> str | None:
    import torch

    if torch.version.hip is None:
        return f"hipBLASLt runs on AMD GPUs, this torch is built for {'CUDA' if torch.version.cuda else 'the CPU'}"
    if case.dtype not in HALVES and (case.dim("N") % ALIGN or case.dim("K") % ALIGN):
        return f"N = {case.dim('N')} and K = {case.dim('K')} must be multiples of {ALIGN} for fp8"
    return None


def _bind(case: Case, tensors: Tensors) -> Launch:
    import torch

    from gate.replay.providers.pytorch.gemm import plain, scaled

    product = plain(tensors) if case.dtype in HALVES else scaled(tensors)
    preferred = torch.backends.cuda.preferred_blas_library

    def launch() -> None:
        # The choice holds for the process, in which other arms keep their own.
        before = preferred()
        preferred("hipblaslt")
        try:
            product()
        finally:
            preferred(before)

    return launch


def _kernel(op: str, dtypes: tuple[str, ...], **said: Any) -> KernelAdapter:
    made = kernel(
        op=op, provider="hipblaslt", dtypes=dtypes, when=_refusal, version=version, tunes_itself=False, **said
    )
    return made(_bind)


gemm = _kernel("gemm", HALVES, detail=DENSE)
preshuffle_gemm = _kernel(
    "preshuffle_gemm", (*HALVES, "fp8"), branch=lambda case: SCALED if case.dtype == "fp8" else DENSE
)
fp8_gemm_rowscale = _kernel("fp8_gemm_rowscale", ("fp8",), detail=SCALED)
