"""layernorm_smoothquant: 8-bit codes of LayerNorm, a scale a row after a multiplication by column."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("layernorm_smoothquant", Norm(centred=True, coded=True, smoothed=True))
