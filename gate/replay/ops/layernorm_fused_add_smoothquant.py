"""layernorm_fused_add_smoothquant: 8-bit codes, a scale a row, of LayerNorm of x + residual times a weight a column."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("layernorm_fused_add_smoothquant", Norm(centred=True, added=True, coded=True, smoothed=True))
