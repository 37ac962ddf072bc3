"""rmsnorm: y = x / sqrt(mean(x^2, axis=-1) + eps) * weight, over rows of length N."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("rmsnorm", Norm())
