"""Kernels for the simulated GPU, one for each way in which a kernel can cheat or compute wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np

from gate.replay.device_sim import current
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, ProviderAdapter
from tests.replay.sim_op import GIVEN, US, launch_work, of_rmsnorm, work_of


@of_rmsnorm
def other_stream(case: Case, tensors: Tensors) -> Launch:
    return lambda: launch_work(tensors, other_stream=True)


@of_rmsnorm
def cached_output(case: Case, tensors: Tensors) -> Launch:
    """Computes once per address and copies that result ever after."""
    kept: list[Any] = []

    def work(given: Tensors) -> None:
        if not kept:
            kept.append(2.0 * given["x"] + 1.0)
        given["out"][...] = kept[0]

    return lambda: launch_work(tensors, work)


@of_rmsnorm
def cached_for_all(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        if not GIVEN:
            GIVEN.append(2.0 * given["x"] + 1.0)
        given["out"][...] = GIVEN[0]

    return lambda: launch_work(tensors, work)


@of_rmsnorm
def first_call_only(case: Case, tensors: Tensors) -> Launch:
    calls: list[int] = []

    def launch() -> None:
        calls.append(1)
        if len(calls) == 1:
            launch_work(tensors)

    return launch


@of_rmsnorm
def changes_kernels(case: Case, tensors: Tensors) -> Launch:
    """The second call of a state uses another kernel."""
    calls: list[int] = []

    def launch() -> None:
        calls.append(1)
        launch_work(tensors, name="slow_path" if len(calls) % 3 == 0 else "fast_path")

    return launch


@of_rmsnorm
def nothing(case: Case, tensors: Tensors) -> Launch:
    GIVEN.append(tensors["out"])
    return lambda: launch_work(tensors, lambda _: None)


@of_rmsnorm
def half_rows(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        half = given["x"].shape[0] // 2
        given["out"][:half] = 2.0 * given["x"][:half] + 1.0

    return lambda: launch_work(tensors, work)


@of_rmsnorm
def in_place(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        given["out"][...] = 2.0 * given["x"] + 1.0
        given["x"] += 0.0 if given["x"][0, 0] > 1e9 else 1e-7 + np.abs(given["x"]) * 0.01

    return lambda: launch_work(tensors, work)


@of_rmsnorm
def writes_input(case: Case, tensors: Tensors) -> Launch:
    """The output is right; the input is changed where nobody looks at the output."""

    def work(given: Tensors) -> None:
        work_of(given)
        given["x"][0, 0] += 1.0
        given["out"][0, 0] = 2.0 * given["x"][0, 0] + 1.0

    return lambda: launch_work(tensors, work)


@of_rmsnorm
def nan_output(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        work_of(given)
        given["out"][0, 0] = np.nan

    return lambda: launch_work(tensors, work)


@of_rmsnorm
def slightly_wrong(case: Case, tensors: Tensors) -> Launch:
    def work(given: Tensors) -> None:
        given["out"][...] = 2.0 * given["x"] + 1.001

    return lambda: launch_work(tensors, work)


def _into_its_own(tensors: Tensors, dtype: Any) -> Launch:
    """Writes memory that it has allocated itself."""
    own = np.zeros(tensors["out"].shape, dtype=dtype)

    def launch() -> dict[str, Any]:
        current().launch("own", lambda: own.__setitem__(..., 2.0 * tensors["x"] + 1.0), us=US)
        return {"out": own}

    return launch


@of_rmsnorm
def wrong_dtype(case: Case, tensors: Tensors) -> Launch:
    return _into_its_own(tensors, np.float16)


@of_rmsnorm
def double_precision(case: Case, tensors: Tensors) -> Launch:
    """An output of a dtype that no op has."""

    def launch() -> dict[str, Any]:
        return {"out": 2.0 * tensors["x"].astype(np.float64) + 1.0}

    return launch


@of_rmsnorm
def own_output(case: Case, tensors: Tensors) -> Launch:
    """Allocates its own output, which is allowed."""
    return _into_its_own(tensors, np.float32)


@of_rmsnorm
def own_output_widens(case: Case, tensors: Tensors) -> Launch:
    """Allocates its own output, of the right dtype for the first copy only."""
    kind = np.float64 if WIDENED else np.float32
    WIDENED.append(1)
    return _into_its_own(tensors, kind)


WIDENED: list[int] = []


@of_rmsnorm
def too_fast(case: Case, tensors: Tensors) -> Launch:
    """Says that it took less time than its bytes take."""
    return lambda: launch_work(tensors, us=0.0)


@of_rmsnorm
def timeless(case: Case, tensors: Tensors) -> Launch:
    """Its times are no numbers."""
    return lambda: launch_work(tensors, us=float("nan"))


@of_rmsnorm
def timeless_later(case: Case, tensors: Tensors) -> Launch:
    """As `timeless`, but not before its ring is built; the pilot's copies are fewer."""
    later = case.dim("M") == 4 and len(LATER) > 32
    LATER.append(1)
    return lambda: launch_work(tensors, us=float("nan") if later else US)


LATER: list[int] = []


@of_rmsnorm
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


class Choosing(Wordless):
    """Says `choice` once it has tensors."""

    detail = "simulated"

    def __init__(self, choice: Any) -> None:
        super().__init__("rmsnorm")
        self.choice = choice

    def chosen(self, state: Any) -> Any:
        assert "out" in state
        return self.choice


choosing, choosing_badly = Choosing("tile=64"), Choosing(64)


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
