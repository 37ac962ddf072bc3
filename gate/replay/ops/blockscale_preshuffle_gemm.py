"""blockscale_preshuffle_gemm: fp8 product with an activation scale for each 128 of K, a weight scale for 128 by 128."""

from __future__ import annotations

from gate.replay.products import Forms, product_op

FORMS: Forms = {"fp8": ("fp8_groups", "fp8_blocks")}

OP = product_op(
    "blockscale_preshuffle_gemm",
    forms=FORMS,
    layout=(
        "a row-major (M, K) with fp32 scale_a (M, K / 128), b row-major (N, K) as it arrives with fp32 scale_b "
        "(N / 128, K / 128), out row-major (M, N) bf16"
    ),
)
