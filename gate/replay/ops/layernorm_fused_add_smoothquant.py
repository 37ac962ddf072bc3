"""layernorm_fused_add_smoothquant: residual_out = x + residual, out = 8-bit codes of LayerNorm of it, a scale a row after a multiplication by column."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("layernorm_fused_add_smoothquant", Norm(centred=True, added=True, coded=True, smoothed=True))
