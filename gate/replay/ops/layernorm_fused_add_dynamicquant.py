"""layernorm_fused_add_dynamicquant: residual_out = x + residual, out = 8-bit codes of LayerNorm of it, a scale a row."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("layernorm_fused_add_dynamicquant", Norm(centred=True, added=True, coded=True))
