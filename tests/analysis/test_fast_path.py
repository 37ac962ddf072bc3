"""Which shapes count as vectorised: the edges of each condition, and what a row says of itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gate.analysis.fast_path import CONDITIONS, fast_path
from tests.analysis import build


def taken(op_type: str, dtype: str, args: dict[str, Any], detail: str | None = None) -> bool | None:
    """Whether the fast path counts as taken; None where nothing tells."""
    shape = msgspec.structs.replace(build.shape(1), op_type=op_type, dtype=dtype, args=args)
    outcome = None if detail is None else build.outcome(shape, "flydsl", 1.0, provider_detail=detail)
    found = fast_path(shape, outcome)
    return None if found is None else found.taken


@pytest.mark.parametrize("op_type", ["rmsnorm", "layernorm", "softmax"])
@pytest.mark.parametrize(
    ("dtype", "n", "expected"),
    [
        ("bf16", 2048, True),
        ("BF16", 4096, True),
        ("f16", 2049, False),
        ("bf16", 2047, False),
        ("bf16", 1024, False),
        ("f32", 2048, False),
        ("fp8", 2048, False),
        ("int7", 2048, False),
    ],
)
def test_rows_need_whole_steps_of_16_bit_elements(op_type: str, dtype: str, n: int, expected: bool) -> None:
    assert taken(op_type, dtype, {"M": 8, "N": n}) is expected


@pytest.mark.parametrize(
    ("dtype", "n", "k", "expected"),
    [
        ("bf16", 16, 64, True),
        ("bf16", 24, 64, False),
        ("bf16", 16, 96, False),
        ("fp8", 16, 128, True),
        ("fp8", 16, 64, False),
        ("int7", 16, 64, True),
    ],
)
def test_products_need_whole_tiles(dtype: str, n: int, k: int, expected: bool) -> None:
    assert taken("gemm", dtype, {"M": 8, "N": n, "K": k}) is expected


@pytest.mark.parametrize(
    ("experts", "expected"),
    [(1, True), (8, True), (64, True), (1024, True), (2048, False), (384, False), (0, False), (24, False), (7, False)],
)
def test_the_router_needs_a_layout_of_one_wave(experts: int, expected: bool) -> None:
    assert taken("topk_gating_softmax", "bf16", {"num_experts": experts}) is expected


def test_what_the_row_says_comes_before_what_the_shape_implies() -> None:
    assert taken("rmsnorm", "bf16", {"M": 8, "N": 2048}, "path=generic") is False
    assert taken("rmsnorm", "bf16", {"M": 8, "N": 2049}, "x path=vector-16") is True
    assert taken("rmsnorm", "bf16", {"M": 8, "N": 2049}, "no word of it") is False
    assert taken("moe_sorting", "bf16", {}, "path=scalar") is False


def test_nothing_is_said_of_other_ops_and_arguments_that_tell_nothing() -> None:
    assert "moe_sorting" not in CONDITIONS
    assert taken("moe_sorting", "bf16", {"N": 2048}) is None
