"""rmsnorm_fused_add_dynamicquant: residual_out = x + residual, out = 8-bit codes of RMSNorm of it, a scale a row."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("rmsnorm_fused_add_dynamicquant", Norm(added=True, coded=True))
