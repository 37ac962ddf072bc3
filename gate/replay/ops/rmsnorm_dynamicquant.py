"""rmsnorm_dynamicquant: 8-bit codes of RMSNorm, a scale a row."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("rmsnorm_dynamicquant", Norm(coded=True))
