"""layernorm_fused_add: residual_out = x + residual, out = LayerNorm of it."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("layernorm_fused_add", Norm(centred=True, added=True))
