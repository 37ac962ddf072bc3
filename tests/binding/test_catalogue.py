"""Which kernel of a checkout serves a shape: the newest it has, on sizes that the kernel was written for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gate.binding.families.catalogue import launches_of
from gate.binding.families.kernel import Refusal

PRODUCT = {"M": 512, "N": 512, "K": 1024}
PAGED = {"batch": 512, "heads": 8, "kv_heads": 1, "seq_q": 1, "dim_qk": 128, "block_size": 16}
EXPERTS = {"M": 1, "Dim1": 7168, "Dim2": 512, "E": 256, "TopK": 8}


def chosen(op: str, dtype: str, args: dict[str, Any], root: Path | None = None) -> dict[str, Any]:
    return dict(launches_of(op, dtype, args, root)[1])


def test_a_checkout_without_the_newest_kernel_runs_the_one_it_replaced(tmp_path: Path) -> None:
    assert chosen("gemm", "bf16", PRODUCT, tmp_path)["kernel"] == "hgemm_splitk"
    (tmp_path / "kernels" / "gemm").mkdir(parents=True)
    (tmp_path / "kernels" / "gemm" / "gemm_a16w16_gfx950.py").write_text("")
    assert chosen("gemm", "bf16", PRODUCT, tmp_path)["kernel"] == "hgemm"
    assert chosen("gemm", "bf16", PRODUCT)["kernel"] == "hgemm"


def test_experts_have_half_of_the_width_that_holds_gate_and_up() -> None:
    assert chosen("moe_gemm", "fp8", EXPERTS)["inter_dim"] == 256
    with pytest.raises(Refusal, match="Dim2=511 holds gate and up, and is odd"):
        launches_of("moe_gemm", "fp8", {**EXPERTS, "Dim2": 511}, None)


@pytest.mark.parametrize(
    ("args", "parts"), [({}, 8), ({"block_size": 64}, 4), ({"block_size": 64, "batch": 32}, 8), ({"batch": 1}, 8)]
)
def test_the_partitions_of_paged_decode_follow_flydsls_rule(args: dict[str, int], parts: int) -> None:
    assert chosen("pa_decode", "fp8", {**PAGED, **args})["num_partitions"] == parts


def test_a_window_counts_the_querys_own_key_and_needs_pages_of_1024() -> None:
    with pytest.raises(Refusal, match="block_size=16: the sliding-window kernel is written for pages of 1024"):
        launches_of("pa_decode", "fp8", {**PAGED, "window": 128}, None)
    found = chosen("pa_decode", "fp8", {**PAGED, "window": 128, "block_size": 1024})
    assert (found["sliding_window"], found["max_context_partition_num"]) == (127, 2)
    heads = {"batch": 1, "heads": 8, "kv_heads": 1, "dim_qk": 128, "dim_v": 128, "window": 128}
    assert chosen("flash_attn", "bf16", heads)["left"] == 127


@pytest.mark.parametrize(
    ("n", "k", "tile"), [(5120, 8192, (64, 256, 128)), (384, 5120, (64, 128, 128)), (2112, 7168, (64, 64, 128))]
)
def test_shuffled_products_take_the_widest_tile_that_fits(n: int, k: int, tile: tuple[int, ...]) -> None:
    found = chosen("preshuffle_gemm", "fp8", {"M": 256, "N": n, "K": k})
    assert tuple(found[name] for name in ("tile_m", "tile_n", "tile_k")) == tile


@pytest.mark.parametrize(("tokens", "path"), [(1, "oneshot"), (17, "p0v2_p23"), (2048, "p0v2_p23"), (2049, "4k_fused")])
def test_sorting_goes_by_the_number_of_tokens(tokens: int, path: str) -> None:
    args = {"num_tokens": tokens, "num_experts": 256, "topk": 8, "unit_size": 32}
    if tokens == 17:
        args["num_experts"] = 512
    assert chosen("moe_sorting", "bf16", args)["path"] == path


def test_an_op_that_no_checkout_has_is_refused() -> None:
    with pytest.raises(Refusal, match="FlyDSL has no batched_gemm in the kernels of a checkout"):
        launches_of("batched_gemm", "bf16", {}, None)


@pytest.mark.parametrize(
    ("args", "block", "streamed"),
    [
        ({}, 32, True),
        ({"M": 2048}, 64, False),
        ({"M": 2048, "Dim1": 4096}, 32, False),
        ({"M": 256, "Dim1": 4096, "E": 8, "TopK": 2}, 32, False),
    ],
)
def test_packed_experts_take_tiles_whose_scales_do_not_overlap(
    args: dict[str, int], block: int, streamed: bool
) -> None:
    for dtype in ("fp4", "mixed_a8w4"):
        found, constants = launches_of("moe_gemm", dtype, {**EXPERTS, **args}, None)
        assert (constants["BM"], constants["use_nt"]) == (block, streamed)
        assert [part.values["use_nt"] for part in found] == [streamed, True]


def test_packed_experts_of_checkouts_up_to_july_2026_run_the_kernels_of_then(tmp_path: Path) -> None:
    found, constants = launches_of("moe_gemm", "mixed_a8w4", EXPERTS, tmp_path)
    assert (constants["kernel"], constants["tile_m"]) == ("mixed_moe", 32)
    assert [part.values["out_dtype"] for part in found] == ["fp8", "bf16"]
    with pytest.raises(Refusal, match="inter_dim=360: the loops step by 256 values"):
        launches_of("moe_gemm", "fp4", {**EXPERTS, "Dim2": 720}, tmp_path)
    assert launches_of("moe_gemm", "fp8", EXPERTS, tmp_path)[1]["kernel"] == "moe_gemm"
