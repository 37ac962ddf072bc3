"""layernorm_dynamicquant: 8-bit codes of LayerNorm, a scale a row."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("layernorm_dynamicquant", Norm(centred=True, coded=True))
