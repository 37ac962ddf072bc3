"""One arm on one shape inside a worker: its ring of states, its graphs, and the checks made on them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from gate.replay import integrity, pilot, scratch
from gate.replay.device import CaptureFailed, Device, KernelTime
from gate.replay.integrity import Finding
from gate.replay.op import Case, Op, Tensors
from gate.replay.outputs import Outputs
from gate.replay.provider import ProviderAdapter
from gate.replay.timer import (
    REPLAYS,
    RingPlan,
    Visit,
    eager_calls,
    quantile,
    visit_one_launch,
    visit_slope,
)

# Where a profile disagrees: how often it is profiled again, how many calls, and behind how much of a graph's load.
PROFILES_AGAIN, MOST_PROFILED, PROFILE_LOAD_US, MOST_LAPS = 5, 32, 50_000.0, 200


class Cell:
    """See the module. The steps, in order: pilot, build, capture, check, profile, visits, finish, recheck, release."""

    def __init__(self, *, device: Device, adapter: ProviderAdapter, op: Op, case: Case, seed: int) -> None:
        self.device, self.adapter, self.op, self.case, self.seed = device, adapter, op, case, seed
        self.inputs: Tensors = {}
        self.outputs = self._no_outputs()
        self.states: list[Any] = []
        self.graphs: list[Any] = []
        self.plan: RingPlan | None = None
        # Device time of a profiled call, us; None without a profiler.
        self.profiled_us: float | None = None
        self._kept_digests: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def _make_ring(self, copies: int) -> None:
        device, case = self.device, self.case
        self.inputs = self.op.inputs(case, device, copies, self.seed)
        self.outputs = self._no_outputs()
        self.outputs.allocate(copies)
        with scratch.pieces(device.scratch):
            self.states = [self.adapter.prepare(case, self._slices(index)) for index in range(copies)]

    def _no_outputs(self) -> Outputs:
        return Outputs(device=self.device, op=self.op, case=self.case, inputs=self.inputs)

    def _slices(self, index: int) -> Tensors:
        return {name: tensor[index] for name, tensor in {**self.inputs, **self.outputs.given}.items()}

    def _launch(self, index: int) -> None:
        result = self.adapter.launch(self.states[index])
        if result is not None:
            self.outputs.results[index] = dict(result)

    def _enqueue(self, launches: int) -> None:
        for index in range(launches):
            self._launch(index % len(self.states))

    def pilot(self) -> dict[str, Any]:
        """Makes the first call, in which libraries load, plan and compile, and tells the bytes of one copy, a first
        time (us; the least of a few, as others may be on the GPU), and its share of the dense peak, where known."""
        device, launches = self.device, pilot.copies(self.op.bytes_moved(self.case))
        self._make_ring(launches)
        device.run(lambda: self._enqueue(launches))
        footprint = sum(device.nbytes(tensor[0]) for tensor in {**self.inputs, **self.outputs.given}.values())
        footprint += sum(device.nbytes(tensor) for tensor in self.adapter.workspaces(self.states[0]))
        facts: dict[str, Any] = {"op": self.op, "case": self.case, "chip": device.facts.chip}
        first_us, gpu_us = pilot.timed(device, self._enqueue, launches=launches, **facts)
        self.release()
        return {
            "estimate_us": first_us,
            "footprint_bytes": footprint,
            "peak_share": pilot.peak_share(first_us, **facts),
            "gpu_us": gpu_us,
        }

    def build(self, plan: RingPlan, *, shared: bool = False) -> None:
        """Makes the ring, where another process has the like one if `shared`, and runs one call, so that nothing is
        left to compile or allocate."""
        self.plan = plan
        with self.device.shared() if shared else nullcontext():
            self._make_ring(plan.copies)
        inputs = self._input_digest()
        self.device.run(lambda: self._launch(0))
        self.outputs.poison()
        self._kept_digests = (inputs, self._workspace_digest())

    @property
    def input_digest(self) -> tuple[int, ...]:
        """The digest of the ring's inputs before the first call; equal rings have equal ones."""
        return self._kept_digests[0]

    def _input_digest(self) -> tuple[int, ...]:
        kept = [tensor for name, tensor in self.inputs.items() if name not in self.op.mutates]
        return self.device.digest(kept)

    def _workspace_digest(self) -> tuple[int, ...]:
        spaces = [tensor for state in self.states[:1] for tensor in self.adapter.workspaces(state)]
        return self.device.digest(spaces)

    def capture(self) -> dict[str, Any]:
        """Records the n-launch and the one-launch graph, and makes integrity check 1. Raises CaptureFailed."""
        assert self.plan is not None
        launches = self.plan.launches
        one = self.device.capture(lambda: self._enqueue(1))
        try:
            full = self.device.capture(lambda: self._enqueue(launches))
        except CaptureFailed:
            one.close()
            raise
        self.graphs = [full, one]
        return {"findings": [item.as_dict() for item in filter(None, [self._escaped()])]}

    def check(self, *, twin: bool = False, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Integrity check 2 on the graphs just captured.

        The reply of a `twin` holds what was `right`, by digests. `like` is that of the other twin: what has the same
        bytes on the same inputs is as right, and is not computed again.
        """
        self.outputs.poison()
        self.device.replay(self.graphs[0])
        outputs = self.outputs.digest() if twin else None
        written = {"inputs": list(self._kept_digests[0]), "outputs": outputs}
        known = outputs is not None and like is not None and all(like[key] == written[key] for key in written)
        findings, largest = ([], like["max_abs"]) if like and known else self.outputs.judge(range(len(self.states)))
        changed = self._input_digest() != self._kept_digests[0]
        findings += filter(None, [integrity.inputs_changed(self._changed_inputs() if changed else [])])
        right = None if findings or outputs is None else {**written, "max_abs": largest}
        return {"findings": [item.as_dict() for item in findings], "max_abs": largest, "right": right}

    def profile(self) -> dict[str, Any]:
        """Integrity check 3, and the profile of one call that check 4 needs; nothing else may run on the GPU."""
        found = self.device.profile(self._eager)
        self.profiled_us = device_us(found) if found else None
        findings = [item.as_dict() for item in filter(None, [self._nodes(found)])]
        return {"findings": findings, "profiled_us": self.profiled_us}

    def _eager(self, calls: Iterable[int] = (0,)) -> None:
        for call in calls:
            self.adapter.launch(self.states[call % len(self.states)])

    def _escaped(self) -> Finding | None:
        changed = self.outputs.touched()
        if self._workspace_digest() != self._kept_digests[1]:
            changed["workspace"] = 1
        return integrity.executed_in_capture(changed)

    def _changed_inputs(self) -> list[str]:
        names = [name for name in self.inputs if name not in self.op.mutates]
        now = dict(zip(names, self._input_digest(), strict=True))
        before = dict(zip(names, self._kept_digests[0], strict=True))
        return [name for name in names if now[name] != before[name]]

    def _nodes(self, eager: tuple[KernelTime, ...]) -> Finding | None:
        assert self.plan is not None
        full, single = (graph.nodes() for graph in self.graphs)
        return integrity.wrong_nodes(full=full, single=single, launches=self.plan.launches, eager=eager)

    def visit(self, method: str, *, replays: int = REPLAYS) -> Visit:
        """One visit with the named method: `graph_slope`, of so many counted replays, or the legacy `cudagraph`.

        Raises integrity.Ended where the clock gives no numbers.
        """
        assert self.plan is not None
        full, single = self.graphs
        if method == "cudagraph":
            found = visit_one_launch(self.device, single=single)
        else:
            found = visit_slope(self.device, full=full, single=single, plan=self.plan, most=replays)
        integrity.require_finite([*found.full_us, *found.single_us, found.gpu_us])
        return found

    def finish(self, times_us: Sequence[float], *, slope: bool) -> dict[str, Any]:
        """Checks 4, 5 and 8 after timing, and the eager view (median us of some calls)."""
        assert self.plan is not None
        findings = list(filter(None, [integrity.invalid_time(times_us)]))
        if not findings and slope:
            findings += filter(None, self._judge_time(quantile(times_us, 0.5)))
        eager = self.device.timed_eager(self._eager, eager_calls(self.profiled_us or 0.0))
        return {
            "findings": [item.as_dict() for item in findings],
            "profiled_us": self.profiled_us,
            "eager_us": quantile(eager, 0.5),
            "bytes_moved": self.op.bytes_moved(self.case),
            "flops": self.op.flops(self.case),
        }

    def _judge_time(self, t_us: float) -> Iterator[Finding | None]:
        assert self.plan is not None
        if integrity.profile_disagrees(t_us=t_us, profiled_us=self.profiled_us) is not None:
            # One profiled call can be hit by something else, and clocks fall under load.
            again = [us for us in self._loaded_profiles(t_us) if us > 0]
            # A profiler that no longer sees anything refutes nothing.
            self.profiled_us = quantile(again, 0.5) if again else self.profiled_us
        yield integrity.profile_disagrees(t_us=t_us, profiled_us=self.profiled_us)
        yield integrity.breaks_physics(
            t_us=t_us,
            bytes_moved=self.op.bytes_moved(self.case),
            flops=self.op.flops(self.case),
            dtype=self.case.dtype,
            chip=self.device.facts.chip,
            cold=self.plan.cache_state == "cold_hbm",
        )

    def _loaded_profiles(self, t_us: float) -> Iterator[float]:
        """Means of the calls that the slope is of, profiled behind a load like the graph's own: which copy a call is on
        may move it by a third, and so may chance."""
        assert self.plan is not None
        laps = min(math.ceil(PROFILE_LOAD_US / (t_us * self.plan.launches)), MOST_LAPS)
        calls = range(1, min(self.plan.launches, 1 + MOST_PROFILED))
        for _ in range(PROFILES_AGAIN):
            for _ in range(laps):
                self.device.replay(self.graphs[0])
            found = self.device.profile(lambda: self._eager(calls))
            yield device_us(found) / len(calls)

    def recheck(self) -> dict[str, Any]:
        """Integrity check 6, after timing: fresh inputs in one random copy, replayed."""
        index = random.Random(self.seed).randrange(len(self.states))
        fresh = self.op.inputs(self.case, self.device, 1, self.seed + 7919)
        for name in self.op.refresh:
            self.device.copy(self.inputs[name][index], fresh[name][0])
        self.outputs.poison()
        self.device.replay(self.graphs[0])
        findings, _ = self.outputs.judge(range(index, index + 1))
        stale = integrity.stale_output(findings[0]) if findings else None
        return {"findings": [item.as_dict() for item in filter(None, [stale])]}

    def release(self) -> None:
        """Frees graphs and tensors."""
        for graph in self.graphs:
            graph.close()
        self.graphs, self.states, self.inputs = [], [], {}
        self.outputs = self._no_outputs()


def device_us(found: Sequence[KernelTime]) -> float:
    """Microseconds of all these kernels."""
    return sum(item.us for item in found)
