"""The op of the simulated GPU, and what its kernels are made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gate.replay.device import Device
from gate.replay.device_sim import current
from gate.replay.op import Case, Op, Spec, Tensors, Tolerance
from gate.replay.provider import Launch, ProviderAdapter, kernel

DTYPES = ("bf16", "fp32", "f32")
US = 10.0


def _inputs(case: Case, device: Device, copies: int, seed: int) -> Tensors:
    x = device.stack(copies, (case.dim("M"), case.dim("N")), "fp32")
    return {"x": device.normal(x, seed)}


def _reference(case: Case, tensors: Tensors) -> Tensors:
    return {"out": np.float32(2.0) * tensors["x"] + np.float32(1.0)}


OP = Op(
    name="sim",
    inputs=_inputs,
    outputs=lambda case: {"out": Spec(shape=(case.dim("M"), case.dim("N")), dtype="fp32")},
    reference=_reference,
    bytes_moved=lambda case: 8.0 * case.dim("M") * case.dim("N"),
    flops=lambda case: 2.0 * case.dim("M") * case.dim("N"),
    tolerances={dtype: Tolerance(atol=1e-6, rtol=1e-6, why="the same two operations") for dtype in DTYPES},
    layout="x row-major (M, N)",
    refresh=("x",),
)


def _written_by_reference(case: Case, tensors: Tensors) -> Tensors:
    result = _reference(case, tensors)
    for out in GIVEN:
        out[...] = 2.0 * tensors["x"][0] + 1.0
    return result


GIVEN: list[Any] = []


def bad_reference_op() -> Op:
    return Op(**{**{name: getattr(OP, name) for name in Op.__slots__}, "reference": _written_by_reference})


BAD_REFERENCE = bad_reference_op()


def work_of(tensors: Tensors) -> None:
    tensors["out"][...] = 2.0 * tensors["x"] + 1.0


def launch_work(tensors: Tensors, work: Any = work_of, *, us: float = US, name: str = "double", **more: Any) -> None:
    current().launch(name, lambda: work(tensors), us=us, touches=(tensors["x"], tensors["out"]), **more)


def us_of(case: Case) -> float:
    return float(case.args.get("us", US))


def honest_kernel(
    provider: str, factor: float = 1.0, op: str = "rmsnorm", steady: float | None = None
) -> ProviderAdapter:
    """`steady` is the factor of shapes that are marked so, where it is another one."""

    def bind(case: Case, tensors: Tensors) -> Launch:
        own = factor if steady is None or not case.args.get("steady") else steady
        return lambda: launch_work(tensors, us=us_of(case) * own)

    return kernel(op=op, provider=provider, dtypes=DTYPES, detail="simulated")(bind)


def of_rmsnorm(function: Any) -> ProviderAdapter:
    return kernel(op="rmsnorm", provider="flydsl", dtypes=DTYPES)(function)


def once(name: str) -> bool:
    """Whether this is the first call in the run's folder; survives the process."""
    folder = os.environ.get("SIM_MARKS")
    if folder is None:
        return True
    path = Path(folder) / name
    if path.exists():
        return False
    path.touch()
    return True
