"""moe_blockscale: moe_gemm in fp8 with an activation scale for each 128 of a row, a weight scale for 128 by 128."""

from __future__ import annotations

from gate.replay.experts import WHY, Forms, experts_op
from gate.replay.op import tolerances

FORMS: Forms = {"fp8": ("fp8_groups", "fp8_blocks")}

OP = experts_op(
    "moe_blockscale",
    forms=FORMS,
    tolerances=tolerances(WHY, fp8=(4e-1, 2e-2)),
    scales=(
        "fp32 scale_x (M, Dim1 / 128), scale_w1 (E, Dim2 / 128, Dim1 / 128) with blocks counted over all Dim2 rows, "
        "scale_w2 (E, Dim1 / 128, Dim2 / 2 / 128)"
    ),
)
