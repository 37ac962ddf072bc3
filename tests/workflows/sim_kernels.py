"""The rehearsal's op and kernels for the simulated GPU; `SPEED_US` is what a commit of the rehearsal changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gate.replay.device import Device
from gate.replay.device_sim import current
from gate.replay.op import Case, Op, Spec, Tensors, Tolerance
from gate.replay.provider import Launch, ProviderAdapter, kernel

SPEED_US = 10.0
RIVAL_US = 12.0


def _inputs(case: Case, device: Device, copies: int, seed: int) -> Tensors:
    return {"x": device.normal(device.stack(copies, (case.dim("N"),), "f32"), seed)}


def _reference(case: Case, tensors: Tensors) -> Tensors:
    return {"out": np.float32(2.0) * tensors["x"] + np.float32(1.0)}


OP = Op(
    name="sim",
    inputs=_inputs,
    outputs=lambda case: {"out": Spec(shape=(case.dim("N"),), dtype="f32")},
    reference=_reference,
    bytes_moved=lambda case: 8.0 * case.dim("N"),
    flops=lambda case: 2.0 * case.dim("N"),
    tolerances={"f32": Tolerance(atol=1e-6, rtol=1e-6, why="the same two operations")},
    layout="x of N",
    refresh=("x",),
)


def _kernel(provider: str, us: float) -> ProviderAdapter:
    def work(tensors: Tensors) -> None:
        tensors["out"][...] = 2.0 * tensors["x"] + 1.0

    def bind(case: Case, tensors: Tensors) -> Launch:
        def launch() -> Any:
            current().launch("double", lambda: work(tensors), us=us, touches=(tensors["x"], tensors["out"]))

        return launch

    return kernel(op="vec_add", provider=provider, dtypes=("f32",), detail="simulated")(bind)


candidate = _kernel("flydsl", SPEED_US)
rival = _kernel("triton", RIVAL_US)
