"""The kernels of the simulated GPU by their names in a matrix; here are the honest ones, and those of an arm."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from gate.replay import scratch
from gate.replay.device_sim import current
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, ProviderAdapter, kernel
from tests.replay.sim_breaking import (
    aborts,
    chatty,
    hangs,
    hangs_in_build,
    killed_always,
    killed_once,
    leaves,
    no_memory,
    no_memory_once,
    raises,
    segfault,
)
from tests.replay.sim_cheating import (
    choosing,
    choosing_badly,
    double_precision,
    half_rows,
    nan_output,
    other_stream,
    slightly_wrong,
    timeless,
    timeless_later,
    wordless,
    wrong_dtype,
)
from tests.replay.sim_op import DTYPES, OP, honest_kernel, launch_work, of_rmsnorm, once, us_of, work_of

# What a matrix or a test names as tests.replay.sim_kernels:NAME.
__all__ = [
    "OP",
    "aborts",
    "arm",
    "chatty",
    "choosing",
    "choosing_badly",
    "double_precision",
    "good",
    "half_rows",
    "hangs",
    "hangs_in_build",
    "honest_kernel",
    "killed_always",
    "killed_once",
    "leaves",
    "nan_output",
    "no_memory",
    "no_memory_once",
    "other_stream",
    "placed",
    "raises",
    "rival",
    "rival_of",
    "segfault",
    "slightly_wrong",
    "slower",
    "timeless",
    "timeless_later",
    "vandal",
    "vanishing",
    "with_scratch",
    "wordless",
    "wrong_dtype",
]

good = honest_kernel("flydsl")
slower = honest_kernel("flydsl", 1.08)
rival = honest_kernel("triton", 0.9)


def arm(op_type: str) -> ProviderAdapter:
    """Head or base: the factor comes from the arm's own environment."""
    return honest_kernel("flydsl", float(os.environ.get("SIM_FACTOR", "1.0")), op_type, steady=1.0)


def vanishing(op_type: str) -> ProviderAdapter:
    """As `arm`, and the shape that is marked takes the GPU away with it, once in the run's folder."""
    inner = arm(op_type)

    def bind(case: Case, tensors: Tensors) -> Launch:
        launch = inner.prepare(case, tensors)

        def vanish() -> None:
            if case.args.get("breaks") and os.environ.get("SIM_MARKS") and once("vanished"):
                (Path(os.environ["SIM_MARKS"]) / "gone").touch()
            launch()

        return vanish

    return kernel(op=op_type, provider="flydsl", dtypes=DTYPES)(bind)


def rival_of(op_type: str) -> ProviderAdapter:
    return honest_kernel("triton", 0.9, op_type)


def placed(op_type: str) -> ProviderAdapter:
    """Takes SIM_FACTOR times as long where its ring lies in memory of its own, which is what placement does."""
    del op_type

    def bind(case: Case, tensors: Tensors) -> Launch:
        here = 1.0 if current().is_shared(tensors["x"]) else float(os.environ.get("SIM_FACTOR", "1.0"))
        return lambda: launch_work(tensors, us=us_of(case) * here)

    return of_rmsnorm(bind)


def with_scratch(op_type: str) -> ProviderAdapter:
    """As `placed`, but it is its scratch whose place matters; and the scratch must be zero whenever it starts."""
    del op_type

    def bind(case: Case, tensors: Tensors) -> Launch:
        piece = scratch.take("counter", 16, np.int32)
        here = 1.0 if current().is_shared(piece) else float(os.environ.get("SIM_FACTOR", "1.0"))

        def work(given: Tensors) -> None:
            given["out"][...] = 2.0 * given["x"] + 1.0 + piece.sum()

        return lambda: launch_work(tensors, work, us=us_of(case) * here)

    return of_rmsnorm(bind)


def vandal(op_type: str) -> ProviderAdapter:
    """With SIM_VANDAL set, writes far beyond its own output: over the next copy's input."""
    del op_type

    def work(given: Tensors) -> None:
        work_of(given)
        if "SIM_VANDAL" in os.environ:
            given["x"].base[...] = 7.0

    return of_rmsnorm(lambda case, tensors: lambda: launch_work(tensors, work))
