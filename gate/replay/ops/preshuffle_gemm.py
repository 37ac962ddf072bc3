"""preshuffle_gemm: out (M, N) = a (M, K) @ b (N, K)^T whose weights may be shuffled before the clock starts."""

from __future__ import annotations

from gate.replay.products import HALVES, Forms, product_op

FORMS: Forms = {
    **HALVES,
    "fp8": ("fp8_rows", "fp8_rows"),
    "int8": ("int8_rows", "int8_rows"),
    "fp4": ("fp4_mx", "fp4_mx"),
}

OP = product_op(
    "preshuffle_gemm",
    forms=FORMS,
    layout=(
        "a row-major (M, K), b row-major (N, K) as it arrives, out row-major (M, N) bf16 (f16 for f16); fp8 and int8: "
        "fp32 scale_a (M,) and scale_b (N,); fp4: e2m1 pairs (., K / 2) and e8m0 scales (., K / 32) of both"
    ),
)
