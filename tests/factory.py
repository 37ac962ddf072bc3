"""Makes ledger rows and result rows for tests: real ids, sensible defaults, any field overridden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from gate.model.outcome import Outcome
from gate.model.shape import Shape, Source, SourceKind, Stage, Weight, compute_shape_id


def make_shape(
    *,
    op_type: str = "rmsnorm",
    model: str = "Llama3 70B",
    stage: Stage = "model_config",
    dtype: str = "bf16",
    args: dict[str, Any] | None = None,
    kind: SourceKind = "model_config",
    **more: Any,
) -> Shape:
    layout = {"row_major": True}
    args = {"M": 2048, "N": 8192} if args is None else args
    shape = Shape(
        shape_id=compute_shape_id(op_type=op_type, model=model, stage=stage, dtype=dtype, layout=layout, args=args),
        op_type=op_type,
        kernel_name=op_type,
        model=model,
        stage=stage,
        arch="gfx950",
        gpu="MI350X",
        dtype=dtype,
        layout=layout,
        args=args,
        source=Source(kind=kind),
        weight=Weight(),
        baselines_available=("pytorch",),
        notes="",
    )
    return msgspec.structs.replace(shape, **more)


def make_outcome(shape: Shape, **more: Any) -> Outcome:
    outcome = Outcome(
        run_id="run",
        shape_id=shape.shape_id,
        provider="flydsl",
        provider_detail="test",
        candidate_commit="c0ffee0",
        gpu="AMD Instinct MI350X",
        arch="gfx950",
        rocm_version="7.2.0",
        correct=True,
        warmup_iters=25,
        repeat_iters=100,
        benchmark_status="ok",
        median_us=10.0,
        timing_method="graph_slope",
        cache_state="cold_hbm",
    )
    return msgspec.structs.replace(outcome, **more)


def decision_in(folder: Path) -> dict[str, Any]:
    """The decision that lies in a folder of outputs."""
    found: dict[str, Any] = json.loads((folder / "decision.json").read_text())
    return found
