"""PyTorch's mixtures of experts: its grouped products where it has them, else a loop over the visited experts.

The routing is known before the clock starts, so the call needs no answer from the device and can be captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gate.replay.experts import Forms, grouped
from gate.replay.op import Case, Tensors
from gate.replay.ops import moe_blockscale as blockscale_op
from gate.replay.ops import moe_gemm as moe_op
from gate.replay.provider import Holding, KernelAdapter, Launch
from gate.replay.providers.pytorch.common import torch_kernel
from gate.replay.quantised import widen, widened

SCALED = "torch._scaled_grouped_mm with row scales; gate, quantisation and sum in elementwise kernels"
GROUPED = (
    "weights made bf16 beforehand, activations in the call, torch._grouped_mm; gate and sum in elementwise kernels"
)
LOOP = "weights made bf16 beforehand, activations in the call, a loop over the visited experts"
ALIGN = 16
GROUPED_ALIGN = 8

Products = Callable[[Any, Any], Any]


def branch_of(case: Case, forms: Forms) -> str:
    """The way that a case goes: torch's grouped products are Hopper's and later NVIDIA GPUs'."""
    hopper = torch.cuda.is_available() and not torch.version.hip and torch.cuda.get_device_capability()[0] == 9
    sizes = (case.dim("Dim1"), case.dim("Dim2") // 2)
    if hopper and forms[case.dtype] == ("fp8_rows", "fp8_rows") and not any(size % ALIGN for size in sizes):
        return SCALED
    return GROUPED if hopper and not any(size % GROUPED_ALIGN for size in sizes) else LOOP


class _Routed:
    """One routing: the (token, place) pairs expert by expert, and how to add up what comes of them."""

    def __init__(self, case: Case, tensors: Tensors) -> None:
        groups = list(grouped(tensors["topk_ids"], case.dim("E")))
        self.places = torch.cat([places for _, places in groups])
        self.token = self.places // case.dim("TopK")
        self.weight = tensors["topk_weights"].flatten()[self.places].unsqueeze(-1)
        self.counts = [(expert, len(places)) for expert, places in groups]
        ends = tensors["topk_ids"].flatten().long().bincount(minlength=case.dim("E")).cumsum(0)
        self.ends = ends.to(torch.int32)
        self.topk, self.back = case.dim("TopK"), self.places.argsort()

    def added(self, y: Any, out: Any) -> None:
        """out = the weighted sum over each token's experts."""
        torch.sum((y * self.weight)[self.back].unflatten(0, (-1, self.topk)), dim=1, out=out)


def _gated(both: Any) -> Any:
    gate, up = both.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


def _bf16_launch(tensors: Tensors, routed: _Routed, forms: tuple[str, str], products: Callable[..., Any]) -> Launch:
    out, narrow = tensors["out"], {name: tensors[name] for name in ("x", "scale_x")}
    left, right = forms
    # One expert at a time, since fp32 values of all the weights would not fit beside the ring.
    w1, w2 = (
        torch.stack(
            [
                widen(codes, scale, right).bfloat16()
                for codes, scale in zip(tensors[w], tensors[f"scale_{w}"], strict=True)
            ]
        )
        for w in ("w1", "w2")
    )

    def launch() -> None:
        x = widened(narrow, "x", left).bfloat16()[routed.token]
        routed.added(products(_gated(products(x, w1)), w2), out)

    return Holding(launch, (w1, w2))


def _looped(routed: _Routed) -> Products:
    def products(x: Any, weights: Any) -> Any:
        parts = x.split([count for _, count in routed.counts])
        pairs = zip(parts, routed.counts, strict=True)
        return torch.cat([part @ weights[expert].t() for part, (expert, _) in pairs])

    return products


def _grouped(routed: _Routed) -> Products:
    return lambda x, weights: torch._grouped_mm(x, weights.transpose(-1, -2), offs=routed.ends)


def _scaled_launch(tensors: Tensors, routed: _Routed) -> Launch:
    out, x, scale_x = tensors["out"], tensors["x"], tensors["scale_x"]
    largest = torch.finfo(x.dtype).max

    def products(codes: Any, scale: Any, name: str) -> Any:
        weights, own = tensors[name].transpose(-1, -2), tensors[f"scale_{name}"]
        return torch._scaled_grouped_mm(
            codes, weights, scale, own, offs=routed.ends, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    def launch() -> None:
        both = products(x.view(torch.uint8)[routed.token].view(x.dtype), scale_x[routed.token], "w1")
        value = _gated(both.float())
        scale = value.abs().amax(dim=-1, keepdim=True).clamp_(min=1e-10) / largest
        codes = (value / scale).to(x.dtype)
        routed.added(products(codes, scale.squeeze(-1), "w2"), out)

    return launch


def experts_kernel(op: str, forms: Forms) -> KernelAdapter:
    """PyTorch's kernels of a mixture of experts."""

    def bind(case: Case, tensors: Tensors) -> Launch:
        branch, routed = branch_of(case, forms), _Routed(case, tensors)
        if branch == SCALED:
            return _scaled_launch(tensors, routed)
        products = _grouped(routed) if branch == GROUPED else _looped(routed)
        return _bf16_launch(tensors, routed, forms[case.dtype], products)

    made = torch_kernel(
        op=op,
        dtypes=tuple(forms),
        branch=lambda case: branch_of(case, forms),
        converts=lambda case: branch_of(case, forms) != SCALED,
        includes_allocation=True,
    )
    return made(bind)


moe_gemm = experts_kernel("moe_gemm", moe_op.FORMS)
moe_blockscale = experts_kernel("moe_blockscale", blockscale_op.FORMS)
