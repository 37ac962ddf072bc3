"""preshuffle_gemm: out (M, N) = a (M, K) @ b (N, K)^T whose weights may be shuffled before the clock starts."""

from __future__ import annotations

from gate.replay.op import tolerances
from gate.replay.products import WHY, Forms, product_op

FORMS: Forms = {
    "bf16": ("bf16", "bf16"),
    "f16": ("f16", "f16"),
    "fp16": ("f16", "f16"),
    "fp8": ("fp8_rows", "fp8_rows"),
    "int8": ("int8_rows", "int8_rows"),
    "fp4": ("fp4_mx", "fp4_mx"),
}

OP = product_op(
    "preshuffle_gemm",
    forms=FORMS,
    tolerances=tolerances(
        WHY, bf16=(2e-1, 1.6e-2), f16=(3e-2, 4e-3), fp8=(5e-2, 2e-2), int8=(2e-2, 1.6e-2), fp4=(2e-2, 1.6e-2)
    ),
    layout=(
        "a row-major (M, K), b row-major (N, K) as it arrives, out row-major (M, N) bf16 (f16 for f16); fp8 and int8: "
        "fp32 scale_a (M,) and scale_b (N,); fp4: e2m1 pairs (., K / 2) and e8m0 scales (., K / 32) of both"
    ),
)
