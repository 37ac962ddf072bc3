"""rmsnorm_fused_add_smoothquant: 8-bit codes, a scale a row, of RMSNorm of x + residual times a weight a column."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("rmsnorm_fused_add_smoothquant", Norm(added=True, coded=True, smoothed=True))
