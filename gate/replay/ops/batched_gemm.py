"""batched_gemm: out (B, M, N) = a (B, M, K) @ b (B, N, K)^T, one product per batch entry."""

from __future__ import annotations

from gate.replay.products import HALVES, Forms, product_op

FORMS: Forms = {
    **HALVES,
    "int8": ("int8_rows", "int8_rows"),
    "fp4": ("fp4_mx", "fp4_mx"),
    "mixed_a16w4": ("bf16", "fp4_mx"),
}

OP = product_op(
    "batched_gemm",
    forms=FORMS,
    layout=(
        "a (B, M, K), b (B, N, K), out (B, M, N), all row-major, out bf16 (f16 for f16); int8: fp32 scale_a (B, M) and "
        "scale_b (B, N); fp4: e2m1 pairs (., K / 2) and e8m0 scales (., K / 32), of b alone for mixed_a16w4"
    ),
    batched=True,
)
