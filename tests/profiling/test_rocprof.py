"""rocprofv3's CSV and JSON: their own numbers come out, and damage gives one line and never a crash."""

from __future__ import annotations

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.model.problem import UnusableInput
from gate.profiling import rocprof_csv, rocprof_json
from gate.profiling.diagnose import Subject, diagnose
from gate.profiling.trace import Trace
from tests.profiling.traces import AGENTS, HEADER, as_csv, as_json, row

TIMES = [6.0, 5.5, 7.25, 6.001, 10.8, 5.999]
ROWS = [row(0, "fill", 3.0, VGPR_Count=8), *(row(1 + index, "rmsnorm_0", us) for index, us in enumerate(TIMES))]


def read(text: str) -> Trace:
    return rocprof_csv.kernel_trace(text, file="t.csv")


def with_agents(trace: Trace) -> Trace:
    return Trace(
        tool=trace.tool,
        dispatches=trace.dispatches,
        agents=rocprof_csv.agents(AGENTS, file="a.csv"),
        lds_exact=False,
        notes=trace.notes,
    )


def test_a_trace_gives_its_own_numbers() -> None:
    found = diagnose(with_agents(read(as_csv(ROWS))), Subject(calls=6))
    kernel = found.kernels[0]
    assert (kernel.name, kernel.count, kernel.per_call, found.dispatches) == ("rmsnorm_0", 6, 1.0, 7)
    took = kernel.durations
    assert (took.min_us, took.max_us, took.n) == (5.5, 10.8, 6)
    assert took.median_us == pytest.approx(statistics.median(TIMES), abs=1e-9)
    assert took.total_us == pytest.approx(sum(TIMES), abs=1e-9)
    assert found.call_us == took.median_us
    assert (kernel.grid, kernel.workgroup) == ((64, 2, 1), (256, 1, 1))
    assert (kernel.lds_bytes, kernel.scratch_bytes) == (512, 0)
    assert (kernel.registers.vgpr_reported, kernel.registers.factor, kernel.registers.vgpr) == (20, 2, 40)
    assert (found.arch, found.gpu) == ("gfx950", "AMD Instinct MI350X")
    assert [one.name for one in found.setup] == ["fill"]


def test_occupancy_is_what_registers_and_lds_allow() -> None:
    rows = [row(index, "k", 5.0, VGPR_Count=64, LDS_Block_Size=81920) for index in range(4)]
    full = diagnose(with_agents(read(as_csv(rows))), Subject(calls=4)).kernels[0].occupancy
    assert full is not None
    # 128 registers leave room for 4 waves; two workgroups of 4 waves each fit in 160 KiB, on 4 SIMDs 2 waves each.
    assert (full.resident, full.most, full.limited_by) == (2, 8, "LDS")
    assert full.workgroups_per_cu == pytest.approx(64 * 2 / 256)


def test_a_tool_that_knows_agprs_is_believed() -> None:
    rows = [row(index, "k", 5.0, VGPR_Count=128, Accum_VGPR_Count=64) for index in range(4)]
    registers = diagnose(with_agents(read(as_csv(rows))), Subject(calls=4)).kernels[0].registers
    assert (registers.factor, registers.vgpr) == (1, 192)


def test_another_architecture_is_taken_as_reported() -> None:
    found = diagnose(read(as_csv(ROWS)), Subject(calls=6, arch="gfx942"))
    assert found.kernels[0].registers.vgpr == 20


def test_without_an_architecture_registers_stay_as_reported() -> None:
    found = diagnose(read(as_csv(ROWS)), Subject(calls=6))
    assert (found.kernels[0].registers.vgpr_reported, found.kernels[0].registers.vgpr) == (20, None)
    assert any("does not tell the architecture" in note for note in found.notes)


def test_columns_may_be_renamed_or_absent() -> None:
    renamed = as_csv(ROWS).replace("Kernel_Name", "KernelName").replace("Start_Timestamp", "BeginNs")
    renamed = renamed.replace("End_Timestamp", "EndNs").replace("VGPR_Count", "arch_vgpr")
    assert len(read(renamed).dispatches) == 7
    few = [name for name in HEADER if name not in ("LDS_Block_Size", "Agent_Id", "VGPR_Count", "Grid_Size_X")]
    trace = read(as_csv(ROWS, few))
    assert {note.split(": ")[1] for note in trace.notes} == {
        "which GPU ran a kernel is not told",
        "LDS is not told",
        "registers is not told",
        "the grid is not told",
    }
    assert (trace.dispatches[0].lds_bytes, trace.dispatches[0].grid) == (None, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (as_csv([]), "a header and no line"),
        ("a,b\n1,2\n", "not a kernel trace"),
        (as_csv([row(0, "k", 5.0, Start_Timestamp="soon")]), "no duration"),
        ("{}", "not a kernel trace"),
    ],
)
def test_what_is_no_trace_is_one_line(text: str, told: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read(text)
    assert len(caught.value.problems) == 1
    assert told in str(caught.value)


def test_a_line_that_cannot_be_read_is_named_and_left_out() -> None:
    rows = [*ROWS[:3], row(9, "k", 0.0), row(10, "memcpy", 1.0, Kind="MEMORY_COPY"), *ROWS[3:]]
    trace = read(as_csv(rows))
    assert len(trace.dispatches) == 7
    assert any(note.startswith("line 5 has no duration") for note in trace.notes)
    assert any(note.startswith("line 6 is no kernel but MEMORY_COPY") for note in trace.notes)


def test_many_bad_lines_are_counted() -> None:
    trace = read(as_csv([*(row(index, "k", 0.0) for index in range(50)), *ROWS]))
    assert "47 more lines: no duration, left out" in trace.notes
    assert len(trace.notes) == 4


@given(st.integers(min_value=0, max_value=len(as_csv(ROWS))))
def test_a_file_cut_anywhere_gives_a_trace_or_one_line(size: int) -> None:
    text = as_csv(ROWS)[:size]
    try:
        trace = read(text)
    except UnusableInput as fault:
        assert len(fault.problems) == 1
        return
    assert 1 <= len(trace.dispatches) <= 7
    lost = 7 - len(trace.dispatches)
    whole_lines = text.count("\n") - 1
    assert lost == 7 - whole_lines or len(trace.dispatches) == whole_lines + 1


def test_other_agents_and_copies_are_told() -> None:
    rows = [*ROWS, row(20, "other", 1.0, Agent_Id="Agent 2")]
    rows.sort(key=lambda one: int(one["Start_Timestamp"]))
    trace = with_agents(read(as_csv([rows[-1] | {"Start_Timestamp": 1, "End_Timestamp": 900}, *rows[:-1]])))
    found = diagnose(
        Trace(tool="rocprofv3", dispatches=trace.dispatches, agents=trace.agents, copies=3), Subject(calls=6)
    )
    assert any("dispatches on 2 agents (Agent 2: 1, Agent 1: 7)" in note for note in found.notes)
    assert any(note.startswith("3 memory copies") for note in found.notes)


def test_json_gives_the_same_diagnosis_with_lds_in_bytes() -> None:
    by_csv = diagnose(with_agents(read(as_csv(ROWS))), Subject(calls=6))
    by_json = diagnose(rocprof_json.results(as_json(ROWS), file="t.json"), Subject(calls=6))
    one, other = by_csv.kernels[0], by_json.kernels[0]
    assert (one.durations, one.grid, one.registers) == (other.durations, other.grid, other.registers)
    assert (one.lds_bytes, other.lds_bytes) == (512, 16)
    assert (by_json.gpu, by_json.arch, by_json.dispatches) == (by_csv.gpu, by_csv.arch, by_csv.dispatches)


def test_json_of_several_processes_is_taken_together() -> None:
    trace = rocprof_json.results(as_json(ROWS, processes=3), file="t.json")
    assert len(trace.dispatches) == 7
    assert trace.notes == ("t.json holds 3 processes; their dispatches are taken together",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        as_json(ROWS)[:-40],
        "[]",
        "{}",
        '{"rocprofiler-sdk-tool": 3}',
        '{"rocprofiler-sdk-tool": []}',
        '{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": []}}]}',
        '{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [3, null, {"dispatch_info": 2}]}}]}',
        "[" * 100_000,
    ],
)
def test_damaged_json_is_one_line(text: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        rocprof_json.results(text, file="t.json")
    assert len(caught.value.problems) == 1


@given(st.recursive(st.none() | st.integers() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3)))
def test_json_with_anything_in_a_field_never_crashes(value: object) -> None:
    document = json.loads(as_json(ROWS))
    tool = document["rocprofiler-sdk-tool"][0]
    tool["kernel_symbols"][1]["arch_vgpr_count"] = value
    tool["kernel_symbols"][0]["kernel_id"] = value if isinstance(value, (int, str)) else 0
    tool["buffer_records"]["kernel_dispatch"][2]["dispatch_info"]["grid_size"] = value
    tool["buffer_records"]["kernel_dispatch"][3]["start_timestamp"] = value
    tool["agents"] = value
    found = rocprof_json.results(json.dumps(document), file="t.json")
    assert len(found.dispatches) >= 6
