"""Triton mixtures of experts: two grouped products over tokens sorted by expert, and the sum of the topk."""

from __future__ import annotations

from typing import Any

import torch
import triton

from gate.replay.experts import Forms
from gate.replay.op import Case, Tensors
from gate.replay.ops import moe_blockscale as blockscale_op
from gate.replay.ops import moe_gemm as moe_op
from gate.replay.provider import KernelAdapter
from gate.replay.providers.triton import tiles, tuning
from gate.replay.providers.triton.calls import Call
from gate.replay.providers.triton.gemm import kernel_forms, source
from gate.replay.providers.triton.kernels import gemm as shared
from gate.replay.providers.triton.kernels import moe_gemm as kernels
from gate.replay.providers.triton.tuning import Config, tuned_kernel

SUM_BLOCK = 1024
DOWN_COLUMNS = 128
# Most rows of a tile, by how many tokens an expert sees on average.
ROWS = ((12, 16), (48, 32), (128, 64))
MOST_ROWS = 128
# (BN of gate and up together half, BK in bytes, warps, stages) by rows of a tile: two accumulators take twice the
# registers. Beside scales by blocks each step's own two products take as many again, for which an NVIDIA GPU has not
# enough; what spills is in memory that each process has at another place, and 128 by 128 took 5% more or less from one
# process to the next.
Tiles = tuple[tuple[int, int, int, int], ...]
WIDE: dict[int, Tiles] = {
    16: ((64, 256, 4, 4), (128, 128, 4, 4), (32, 256, 4, 4)),
    64: ((128, 128, 4, 4), (64, 128, 4, 4)),
    128: ((128, 128, 8, 3),),
}
BLOCKS: dict[int, Tiles] = {
    16: ((64, 128, 4, 4), (128, 128, 8, 4), (32, 128, 4, 4)),
    64: ((128, 128, 8, 3), (64, 128, 4, 4)),
    128: ((64, 128, 8, 4),),
}
NARROW: dict[int, Tiles] = {
    16: ((64, 128, 4, 3), (128, 128, 4, 3), (32, 256, 4, 3)),
    64: ((64, 128, 4, 3), (128, 64, 4, 3)),
    128: ((128, 64, 8, 3),),
}
INT8_LIMIT = 127


def block_rows(case: Case) -> int:
    """The height of a tile: the padding of each expert's tokens to whole tiles is computed in vain."""
    average = case.dim("M") * case.dim("TopK") / case.dim("E")
    return next((rows for most, rows in ROWS if average <= most), MOST_ROWS)


def _configs(case: Case, b: str) -> list[Config]:
    rows, blocks, amd = block_rows(case), b == "blocks", tiles.on_amd()
    table = NARROW if b == "mx4" else BLOCKS if blocks and not amd else WIDE
    # Of the tiles that fit beside scales by blocks the higher ones are the narrower.
    heights = [MOST_ROWS // 2, MOST_ROWS] if table is BLOCKS and rows == MOST_ROWS else [rows]
    return [
        {
            "BM": height,
            "BN": bn,
            "BK": min(bk, 128) if blocks else bk,
            "GROUP": 8,
            "num_warps": warps,
            "num_stages": 2 if amd else stages,
            "NATIVE": native,
        }
        for height in heights
        for bn, bk, warps, stages in table[height if height > 32 else 16]
        for native in (tiles.native_mx() if b == "mx4" else (False,))
    ]


def most_tiles(case: Case, rows: int) -> int:
    """Tiles that any routing may need: each visited expert leaves at most one tile unfilled."""
    places = case.dim("M") * case.dim("TopK")
    return min(places, -(-places // rows) + case.dim("E"))


def sorted_slots(case: Case, ids: Any, rows: int) -> tuple[Any, Any]:
    """The slots of each expert padded to whole tiles, and each tile's expert; -1 for tiles that this routing spares."""
    tiles_most, places = most_tiles(case, rows), ids.numel()
    slots = torch.full((tiles_most * rows,), places, dtype=torch.int32, device=ids.device)
    experts = torch.full((tiles_most,), -1, dtype=torch.int32, device=ids.device)
    if ids.is_meta:
        return slots, experts
    flat = ids.flatten().long()
    counts = flat.bincount(minlength=case.dim("E"))
    needed = (counts + rows - 1) // rows
    order = flat.argsort(stable=True)
    padded_start, start = (needed.cumsum(0) - needed) * rows, counts.cumsum(0) - counts
    own = flat[order]
    within = torch.arange(places, device=ids.device) - start[own]
    slots[padded_start[own] + within] = order.int()
    used = torch.arange(case.dim("E"), device=ids.device).repeat_interleave(needed)
    experts[: len(used)] = used.int()
    return slots, experts


def _limit(x: Any, b: str) -> int:
    """The largest code of what lies between the products, 0 where it stays in bf16."""
    if b == "mx4":
        return 0
    return INT8_LIMIT if x.dtype == torch.int8 else int(torch.finfo(x.dtype).max)


class Layer:
    """One layer with one config: its sorted slots, what lies between its launches, and the launches."""

    def __init__(self, case: Case, tensors: Tensors, a: str, b: str, config: Config) -> None:
        self.tensors, self.config, self.topk = tensors, config, case.dim("TopK")
        self.wide, self.inter = case.dim("Dim1"), case.dim("Dim2") // 2
        self.common, self.rows = {"A": a, "B": b, **config}, a == "rows"
        self.slots, self.experts = sorted_slots(case, tensors["topk_ids"], config["BM"])
        x, out, places = tensors["x"], tensors["out"], case.dim("M") * self.topk
        self.limit, self.places, place = _limit(x, b), places, str(x.device)
        kind = x.dtype if self.limit else torch.bfloat16
        self.between = tuning.workspace("between", places * self.inter, kind, place)
        groups = places * triton.cdiv(self.inter, config["BN"])
        # Without codes between the products nothing reads their scales.
        self.scales = tuning.workspace("scales", groups if self.limit else 1, torch.float32, place)
        self.parts = out if self.topk == 1 else tuning.workspace("parts", places * self.wide, torch.bfloat16, place)

    def gate_up(self) -> Call:
        """x to what lies between the products."""
        tensors, tiles_most = self.tensors, len(self.experts)
        operands = (tensors["x"], tensors["w1"], tensors["scale_x"], tensors["scale_w1"], self.between, self.scales)
        return Call(
            function=kernels.gate_up,
            arguments=(*operands, self.slots, self.experts, self.places, tiles_most, self.inter, self.wide),
            grid=(tiles_most * triton.cdiv(self.inter, self.config["BN"]),),
            options={**self.common, "TOPK": self.topk, "LIMIT": self.limit},
        )

    def down(self) -> Call:
        """What lies between the products to each slot's weighted share."""
        tensors, tiles_most, columns = self.tensors, len(self.experts), self.config["BN"]
        operands = (self.between, tensors["w2"], self.scales, tensors["scale_w2"], tensors["topk_weights"], self.parts)
        # A step over K stays within one scale of what lies between.
        depth = min(columns, 128) if self.limit else self.config["BK"]
        own = {"A": "grouped" if self.limit else "wide", "BN": DOWN_COLUMNS, "BK": depth}
        return Call(
            function=kernels.down,
            arguments=(*operands, self.slots, self.experts, self.places, tiles_most, self.wide, self.inter),
            grid=(tiles_most * triton.cdiv(self.wide, DOWN_COLUMNS),),
            options={**self.common, **own, "GA": columns, "ROWS": self.rows},
        )

    def added(self) -> Call:
        """Each token's shares to its row."""
        return Call(
            function=kernels.sum_topk,
            arguments=(self.parts, self.tensors["out"], self.wide),
            grid=(self.places // self.topk, triton.cdiv(self.wide, SUM_BLOCK)),
            options={"TOPK": self.topk, "BLOCK": SUM_BLOCK},
        )

    def calls(self) -> list[Call]:
        """All launches in order."""
        return [self.gate_up(), self.down(), *([self.added()] if self.topk > 1 else [])]


def experts_kernel(op: str, forms: Forms, *, detail: str) -> KernelAdapter:
    """The Triton kernels of a mixture of experts."""

    def named(case: Case) -> tuple[str, str]:
        return kernel_forms(*forms[case.dtype])

    def configs(case: Case) -> list[Config]:
        return _configs(case, named(case)[1])

    return tuned_kernel(
        op=op,
        dtypes=tuple(forms),
        detail=detail,
        configs=configs,
        calls=lambda case, tensors, config: Layer(case, tensors, *named(case), config).calls(),
        key=lambda case: (case.dtype, sorted(case.args.items()), source(shared), source(kernels)),
    )


moe_gemm = experts_kernel(
    "moe_gemm",
    moe_op.FORMS,
    detail=(
        "gate and up in one kernel, down, sum of the topk; tokens sorted beforehand; between the products codes with a "
        "scale for each tile of a row (fp8, int8), bf16 beside fp4 weights"
    ),
)
moe_blockscale = experts_kernel(
    "moe_blockscale",
    blockscale_op.FORMS,
    detail="gate and up in one kernel, down, sum of the topk; tokens sorted beforehand; fp8 between the products",
)
