"""Kernels for the simulated GPU: one honest one, and one for each way in which a kernel can cheat or break."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from gate.replay import scratch
from gate.replay.device import Device, OutOfMemory
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


def _work(tensors: Tensors) -> None:
    tensors["out"][...] = 2.0 * tensors["x"] + 1.0


def launch_work(tensors: Tensors, work: Any = _work, *, us: float = US, name: str = "double", **more: Any) -> None:
    current().launch(name, lambda: work(tensors), us=us, touches=(tensors["x"], tensors["out"]), **more)


def _us(case: Case) -> float:
    return float(case.args.get("us", US))


def honest_kernel(
    provider: str, factor: float = 1.0, op: str = "rmsnorm", steady: float | None = None
) -> ProviderAdapter:
    """`steady` is the factor of shapes that are marked so, where it is another one."""

    def bind(case: Case, tensors: Tensors) -> Launch:
        own = factor if steady is None or not case.args.get("steady") else steady
        return lambda: launch_work(tensors, us=_us(case) * own)

    return kernel(op=op, provider=provider, dtypes=DTYPES, detail="simulated")(bind)


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
            if case.args.get("breaks") and os.environ.get("SIM_MARKS") and _once("vanished"):
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
        return lambda: launch_work(tensors, us=_us(case) * here)

    return kernel(op="rmsnorm", provider="flydsl", dtypes=DTYPES)(bind)


def with_scratch(op_type: str) -> ProviderAdapter:
    """As `placed`, but it is its scratch whose place matters; and the scratch must be zero whenever it starts."""
    del op_type

    def bind(case: Case, tensors: Tensors) -> Launch:
        piece = scratch.take("counter", 16, np.int32)
        here = 1.0 if current().is_shared(piece) else float(os.environ.get("SIM_FACTOR", "1.0"))

        def work(given: Tensors) -> None:
            given["out"][...] = 2.0 * given["x"] + 1.0 + piece.sum()

        return lambda: launch_work(tensors, work, us=_us(case) * here)

    return kernel(op="rmsnorm", provider="flydsl", dtypes=DTYPES)(bind)


def vandal(op_type: str) -> ProviderAdapter:
    """With SIM_VANDAL set, writes far beyond its own output: over the next copy's input."""
    del op_type

    def work(given: Tensors) -> None:
        _work(given)
        if "SIM_VANDAL" in os.environ:
            given["x"].base[...] = 7.0

    return kernel(op="rmsnorm", provider="flydsl", dtypes=DTYPES)(
        lambda case, tensors: lambda: launch_work(tensors, work)
    )


def _kernel(function: Any) -> ProviderAdapter:
    return kernel(op="rmsnorm", provider="flydsl", dtypes=DTYPES)(function)


@_kernel
def other_stream(case: Case, tensors: Tensors) -> Launch:
    return lambda: launch_work(tensors, other_stream=True)


@_kernel
def cached_output(case: Case, tensors: Tensors) -> Launch:
    """Computes once per address and copies that result ever after."""
    kept: list[Any] = []

    def work(given: Tensors) -> None:
        if not kept:
            kept.append(2.0 * given["x"] + 1.0)
        given["out"][...] = kept[0]

    return lambda: launch_work(tensors, work)


@_kernel
def cached_for_all(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        if not GIVEN:
            GIVEN.append(2.0 * given["x"] + 1.0)
        given["out"][...] = GIVEN[0]

    return lambda: launch_work(tensors, work)


@_kernel
def first_call_only(case: Case, tensors: Tensors) -> Launch:
    calls: list[int] = []

    def launch() -> None:
        calls.append(1)
        if len(calls) == 1:
            launch_work(tensors)

    return launch


@_kernel
def changes_kernels(case: Case, tensors: Tensors) -> Launch:
    """The second call of a state uses another kernel."""
    calls: list[int] = []

    def launch() -> None:
        calls.append(1)
        launch_work(tensors, name="slow_path" if len(calls) % 3 == 0 else "fast_path")

    return launch


@_kernel
def nothing(case: Case, tensors: Tensors) -> Launch:
    GIVEN.append(tensors["out"])
    return lambda: launch_work(tensors, lambda _: None)


@_kernel
def half_rows(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        half = given["x"].shape[0] // 2
        given["out"][:half] = 2.0 * given["x"][:half] + 1.0

    return lambda: launch_work(tensors, work)


@_kernel
def in_place(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        given["out"][...] = 2.0 * given["x"] + 1.0
        given["x"] += 0.0 if given["x"][0, 0] > 1e9 else 1e-7 + np.abs(given["x"]) * 0.01

    return lambda: launch_work(tensors, work)


@_kernel
def writes_input(case: Case, tensors: Tensors) -> Launch:
    """The output is right; the input is changed where nobody looks at the output."""

    def work(given: Tensors) -> None:
        _work(given)
        given["x"][0, 0] += 1.0
        given["out"][0, 0] = 2.0 * given["x"][0, 0] + 1.0

    return lambda: launch_work(tensors, work)


@_kernel
def nan_output(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        _work(given)
        given["out"][0, 0] = np.nan

    return lambda: launch_work(tensors, work)


@_kernel
def slightly_wrong(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        given["out"][...] = 2.0 * given["x"] + 1.001

    return lambda: launch_work(tensors, work)


@_kernel
def wrong_dtype(case: Case, tensors: Tensors) -> Launch:
    own = np.zeros(tensors["out"].shape, dtype=np.float16)

    def launch() -> dict[str, Any]:
        current().launch("half", lambda: own.__setitem__(..., 2.0 * tensors["x"] + 1.0), us=US)
        return {"out": own}

    return launch


@_kernel
def double_precision(case: Case, tensors: Tensors) -> Launch:
    """An output of a dtype that no op has."""

    def launch() -> dict[str, Any]:
        return {"out": 2.0 * tensors["x"].astype(np.float64) + 1.0}

    return launch


@_kernel
def own_output(case: Case, tensors: Tensors) -> Launch:
    """Allocates its own output, which is allowed."""
    own = np.zeros(tensors["out"].shape, dtype=np.float32)

    def launch() -> dict[str, Any]:
        current().launch("own", lambda: own.__setitem__(..., 2.0 * tensors["x"] + 1.0), us=US)
        return {"out": own}

    return launch


@_kernel
def own_output_widens(case: Case, tensors: Tensors) -> Launch:
    """Allocates its own output, of the right dtype for the first copy only."""
    kind = np.float64 if WIDENED else np.float32
    own = np.zeros(tensors["out"].shape, dtype=kind)
    WIDENED.append(1)

    def launch() -> dict[str, Any]:
        current().launch("own", lambda: own.__setitem__(..., 2.0 * tensors["x"] + 1.0), us=US)
        return {"out": own}

    return launch


WIDENED: list[int] = []


@_kernel
def too_fast(case: Case, tensors: Tensors) -> Launch:
    """Says that it took less time than its bytes take."""
    return lambda: launch_work(tensors, us=0.0)


@_kernel
def timeless(case: Case, tensors: Tensors) -> Launch:
    """Its times are no numbers."""
    return lambda: launch_work(tensors, us=float("nan"))


@_kernel
def timeless_later(case: Case, tensors: Tensors) -> Launch:
    """As `timeless`, but not before its ring is built; the pilot's copies are fewer."""
    later = case.dim("M") == 4 and len(LATER) > 32
    LATER.append(1)
    return lambda: launch_work(tensors, us=float("nan") if later else US)


LATER: list[int] = []


@_kernel
def lying_graph(case: Case, tensors: Tensors) -> Launch:
    """Replays in a third of the time that the profiler sees for one eager call."""
    device = current()

    def launch() -> None:
        launch_work(tensors, us=30.0 if device._recording is not None else 90.0)

    return launch


class Wordless(ProviderAdapter):
    """Does all that it should, and calls itself 5."""

    provider = "flydsl"
    detail: Any = 5

    def prepare(self, case: Case, tensors: Tensors) -> Any:
        return tensors

    def launch(self, state: Any) -> None:
        launch_work(state)


wordless = Wordless("rmsnorm")


class Spaced(ProviderAdapter):
    """Has a workspace, which it writes from another stream."""

    provider = "flydsl"

    def prepare(self, case: Case, tensors: Tensors) -> Any:
        return {**tensors, "space": np.zeros(16, dtype=np.float32)}

    def launch(self, state: Any) -> None:
        current().launch("escaped", lambda: state["space"].__iadd__(1.0), us=1.0, other_stream=True)
        launch_work(state)

    def workspaces(self, state: Any) -> tuple[Any, ...]:
        return (state["space"],)


def _once(name: str) -> bool:
    """Whether this is the first call in the run's folder; survives the process."""
    folder = os.environ.get("SIM_MARKS")
    if folder is None:
        return True
    path = Path(folder) / name
    if path.exists():
        return False
    path.touch()
    return True


def _breaks(how: Any) -> ProviderAdapter:
    def bind(case: Case, tensors: Tensors) -> Launch:
        def launch() -> None:
            if case.args.get("breaks"):
                how()
            launch_work(tensors, us=_us(case))

        return launch

    return kernel(op="rmsnorm", provider="flydsl", dtypes=DTYPES)(bind)


@_kernel
def hangs_in_build(case: Case, tensors: Tensors) -> Launch:
    """Hangs as its ring is made in memory that is shared, which is after the pilot."""
    if case.args.get("breaks") and current().is_shared(tensors["x"]):
        _once("building")
        time.sleep(3600)
    return lambda: launch_work(tensors)


def _raise(error: BaseException) -> Any:
    raise error


segfault = _breaks(lambda: os.kill(os.getpid(), signal.SIGSEGV))
aborts = _breaks(os.abort)
hangs = _breaks(lambda: time.sleep(3600))
leaves = _breaks(lambda: os._exit(3))
killed_once = _breaks(lambda: os.kill(os.getpid(), signal.SIGKILL) if _once("killed") else None)
killed_always = _breaks(lambda: os.kill(os.getpid(), signal.SIGKILL))
no_memory = _breaks(lambda: _raise(OutOfMemory("the card is full")))
no_memory_once = _breaks(lambda: _raise(OutOfMemory("the card is full")) if _once("crowded") else None)
raises = _breaks(lambda: _raise(ValueError("tile does not divide N")))
chatty = _breaks(lambda: os.write(1, b"{not json\n"))


def factory(op_type: str) -> ProviderAdapter:
    return honest_kernel("flydsl")
