"""Traces written by hand, with numbers that tests compute on their own."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

AGENTS = (
    '"Node_Id","Logical_Node_Id","Agent_Type","Simd_Count","Cu_Count","Name","Product_Name"\n'
    '0,0,"CPU",0,64,"EPYC","EPYC"\n'
    '1,1,"GPU",1024,256,"gfx950","AMD Instinct MI350X"\n'
    '2,2,"GPU",1024,256,"gfx950","AMD Instinct MI350X"\n'
)


def row(index: int, name: str, us: float, **more: Any) -> dict[str, Any]:
    """One dispatch of `us` microseconds, 100 us after the one before."""
    start = 1_000_000 + index * 100_000
    return {
        "Kind": "KERNEL_DISPATCH",
        "Agent_Id": "Agent 1",
        "Queue_Id": 1,
        "Stream_Id": 0,
        "Thread_Id": 77,
        "Dispatch_Id": index + 1,
        "Kernel_Id": 9,
        "Kernel_Name": name,
        "Correlation_Id": index + 1,
        "Start_Timestamp": start,
        "End_Timestamp": start + round(us * 1000),
        "LDS_Block_Size": 512,
        "Scratch_Size": 0,
        "VGPR_Count": 20,
        "Accum_VGPR_Count": 0,
        "SGPR_Count": 32,
        "Workgroup_Size_X": 256,
        "Workgroup_Size_Y": 1,
        "Workgroup_Size_Z": 1,
        "Grid_Size_X": 256 * 64,
        "Grid_Size_Y": 2,
        "Grid_Size_Z": 1,
        **more,
    }


# The columns in rocprofv3's own order.
HEADER = tuple(row(0, "", 1.0))


def as_csv(rows: Sequence[dict[str, Any]], header: Sequence[str] = HEADER) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, header, extrasaction="ignore", quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def as_json(rows: Sequence[dict[str, Any]], *, processes: int = 1, lds: int = 16) -> str:
    """The same dispatches as rocprofv3 writes them in JSON."""
    names = list(dict.fromkeys(one["Kernel_Name"] for one in rows))
    symbols = [
        {
            "kernel_id": names.index(name),
            "kernel_name": name + ".kd",
            "formatted_kernel_name": name,
            "arch_vgpr_count": 20,
            "accum_vgpr_count": 0,
            "sgpr_count": 32,
        }
        for name in names
    ]
    records = [
        {
            "start_timestamp": one["Start_Timestamp"],
            "end_timestamp": one["End_Timestamp"],
            "dispatch_info": {
                "agent_id": {"handle": 4242},
                "kernel_id": names.index(one["Kernel_Name"]),
                "private_segment_size": one["Scratch_Size"],
                "group_segment_size": lds,
                "workgroup_size": {axis.lower(): one[f"Workgroup_Size_{axis}"] for axis in "XYZ"},
                "grid_size": {axis.lower(): one[f"Grid_Size_{axis}"] for axis in "XYZ"},
            },
        }
        for one in rows
    ]
    agents = [
        {"id": {"handle": 1}, "type": 1, "product_name": "EPYC", "name": "EPYC"},
        {"id": {"handle": 4242}, "type": 2, "product_name": "AMD Instinct MI350X", "name": "gfx950", "cu_count": 256},
    ]
    tools = [
        {
            "agents": agents,
            "kernel_symbols": symbols,
            "buffer_records": {"kernel_dispatch": records[number::processes], "memory_copy": []},
        }
        for number in range(processes)
    ]
    return json.dumps({"rocprofiler-sdk-tool": tools})


def torch_event(index: int, name: str, us: float, **args: Any) -> dict[str, Any]:
    form = {
        "device": 0,
        "registers per thread": 40,
        "shared memory": 1024,
        "grid": [132, 2, 1],
        "block": [128, 1, 1],
        "blocks per SM": 2.0,
        "warps per SM": 8.0,
        "est. achieved occupancy %": 75,
        **args,
    }
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 1.7e15 + 0.5 + 50 * index, "dur": us, "args": form}


def as_torch(events: Sequence[dict[str, Any]]) -> str:
    device = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    return json.dumps({"deviceProperties": [device], "traceEvents": list(events)})
