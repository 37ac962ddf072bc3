"""torch.profiler's trace gives the same record."""

from __future__ import annotations

import pytest

from gate.model.problem import UnusableInput
from gate.profiling import torch_trace
from gate.profiling.diagnose import Subject, diagnose
from tests.profiling.traces import as_torch, torch_event

EVENTS = [torch_event(index, "rms_kernel", us) for index, us in enumerate([10.0, 12.5, 11.0, 10.5])]


def test_a_trace_gives_its_own_numbers() -> None:
    found = diagnose(torch_trace.trace(as_torch(EVENTS), file="t.json"), Subject(calls=4))
    kernel = found.kernels[0]
    assert (found.tool, found.gpu, found.arch, found.calls) == ("torch_profiler", "NVIDIA H200", "sm_90", 4)
    took = kernel.durations
    assert (took.min_us, took.median_us, took.max_us) == (10.0, 10.75, 12.5)
    assert (kernel.grid, kernel.workgroup, kernel.lds_bytes) == ((132, 2, 1), (128, 1, 1), 1024)
    assert (kernel.registers.vgpr, kernel.registers.factor) == (40, 1)
    assert kernel.occupancy is not None
    # 75% of 64 warps; 40 registers a thread leave room for 65536 / (40 x 32) = 51 warps.
    assert (kernel.occupancy.resident, kernel.occupancy.limited_by) == (48, "")
    assert kernel.occupancy.workgroups_per_cu == 2.0


def test_registers_that_hold_the_occupancy_are_named() -> None:
    events = [torch_event(0, "k", 9.0, **{"registers per thread": 128, "est. achieved occupancy %": 25})]
    found = diagnose(torch_trace.trace(as_torch(events), file="t.json"), Subject(calls=1))
    assert found.kernels[0].occupancy is not None
    assert (found.kernels[0].occupancy.resident, found.kernels[0].occupancy.limited_by) == (16, "registers")


def test_copies_and_what_is_not_told_are_notes() -> None:
    bare = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 5, "args": {}}
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 20, "dur": 5}
    odd = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": None}
    found = diagnose(torch_trace.trace(as_torch([bare, copy, odd]), file="t.json"), Subject(calls=1))
    text = "\n".join(found.notes)
    assert "1 memory copy or fill beside" in text and "does not tell registers" in text and "has no duration" in text
    assert found.kernels[0].registers.vgpr is None


@pytest.mark.parametrize("text", ["", "{}", '{"traceEvents": 1}', as_torch([]), as_torch(EVENTS)[:-9]])
def test_damage_is_one_line(text: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        torch_trace.trace(text, file="t.json")
    assert len(caught.value.problems) == 1
