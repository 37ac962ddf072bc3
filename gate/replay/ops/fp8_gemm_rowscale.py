"""fp8_gemm_rowscale: out (M, N) = (a (M, K) @ b (N, K)^T) * scale_a (M, 1) * scale_b (1, N), weights as they arrive."""

from __future__ import annotations

from gate.replay.products import Forms, product_op

FORMS: Forms = {"fp8": ("fp8_rows", "fp8_rows")}

OP = product_op(
    "fp8_gemm_rowscale",
    forms=FORMS,
    layout="a row-major (M, K), b row-major (N, K), fp32 scale_a (M,) and scale_b (N,), out row-major (M, N) bf16",
)
