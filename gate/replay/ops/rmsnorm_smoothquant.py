"""rmsnorm_smoothquant: 8-bit codes of RMSNorm, a scale a row after a multiplication by column."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("rmsnorm_smoothquant", Norm(coded=True, smoothed=True))
