"""rmsnorm_fused_add_dynamicquant: RMSNorm of x + residual, put out as 8-bit codes and a scale a row."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("rmsnorm_fused_add_dynamicquant", Norm(added=True, coded=True))
