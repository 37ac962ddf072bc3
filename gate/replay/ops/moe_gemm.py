"""moe_gemm: both grouped products of a mixture of experts, w2 (silu(w1_gate x) * (w1_up x)) summed over the topk."""

from __future__ import annotations

from gate.replay.experts import WHY, Forms, experts_op
from gate.replay.op import tolerances

FORMS: Forms = {
    "fp8": ("fp8_rows", "fp8_rows"),
    "int8": ("int8_rows", "int8_rows"),
    "fp4": ("fp4_mx", "fp4_mx"),
    "mixed_a8w4": ("fp8_mx", "fp4_mx"),
}

OP = experts_op(
    "moe_gemm",
    forms=FORMS,
    tolerances=tolerances(WHY, fp8=(4e-1, 2e-2), int8=(4e-1, 2e-2), fp4=(9e-1, 5e-2), mixed_a8w4=(9e-1, 5e-2)),
    scales=(
        "fp8 and int8: fp32 scale_x (M,), scale_w1 (E, Dim2), scale_w2 (E, Dim1); fp4: e2m1 pairs and an e8m0 scale "
        "for each 32 of a row, mixed_a8w4 the same with x in e4m3"
    ),
)
