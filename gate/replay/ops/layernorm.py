"""layernorm: y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, over rows of length N."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("layernorm", Norm(centred=True))
