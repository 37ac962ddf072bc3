"""fused_add_rmsnorm: residual_out = x + residual, out = RMSNorm of it times weight."""

from __future__ import annotations

from gate.replay.norms import Norm, norm_op

OP = norm_op("fused_add_rmsnorm", Norm(added=True))
