"""Knows the JSON output of rocprofv3: one object per traced process, with symbols, agents and buffered records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gate.model.problem import Problem, UnusableInput
from gate.profiling.trace import Agent, Dispatch, Remarks, Trace, dim3, in_workgroups, whole

ROOT = "rocprofiler-sdk-tool"
SYMBOL_NAMES = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name", "truncated_kernel_name")
GPU_TYPE = 2


def results(text: str, *, file: str) -> Trace:
    """The dispatches of all processes in order of their start; LDS is here in bytes.

    A record that cannot be read is left out and named in the notes. Raises UnusableInput when the text is not whole
    JSON, is not rocprofv3's, or has no dispatch that can be read.
    """
    tools = list(_tools(_document(text, file=file), file=file))
    remarks = Remarks()
    if len(tools) > 1:
        remarks.add("processes", f"{file} holds {len(tools)} processes; their dispatches are taken together")
    dispatches: list[Dispatch] = []
    agents: list[Agent] = []
    copies = 0
    for tool in tools:
        agents += _agents(tool)
        records = _mapping(tool.get("buffer_records"))
        copies += len(_listed(records.get("memory_copy")))
        dispatches += _dispatches(tool, _listed(records.get("kernel_dispatch")), remarks)
    if not dispatches:
        told = "; ".join(remarks.texts()[:1]) or "no kernel_dispatch record"
        raise UnusableInput(
            Problem(what=f"no dispatch in it: {told}", file=file, fix="profile again with --kernel-trace")
        )
    ordered = tuple(sorted(dispatches, key=lambda one: one.start_ns))
    return Trace(tool="rocprofv3", dispatches=ordered, agents=tuple(agents), copies=copies, notes=remarks.texts())


def _document(text: str, *, file: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        what = f"not whole JSON: {str(error)[:80]}"
        raise UnusableInput(Problem(what=what, file=file, fix="the trace is cut off; profile again")) from None
    except RecursionError:
        raise UnusableInput(Problem(what="nested too deeply", file=file, fix="no trace is")) from None


def _tools(document: Any, *, file: str) -> Iterator[Mapping[str, Any]]:
    found = document.get(ROOT) if isinstance(document, dict) else None
    listed = found if isinstance(found, list) else [found]
    tools = [tool for tool in listed if isinstance(tool, dict)]
    if not tools:
        raise UnusableInput(Problem(what=f"no {ROOT} in it", file=file, fix="give rocprofv3's *_results.json"))
    yield from tools


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _handle(value: Any) -> str:
    found = value.get("handle") if isinstance(value, dict) else value
    return "" if found is None else str(found)


def _agents(tool: Mapping[str, Any]) -> Iterator[Agent]:
    for entry in map(_mapping, _listed(tool.get("agents"))):
        is_gpu = entry.get("type") == GPU_TYPE
        product = str(entry.get("product_name") or entry.get("model_name") or "")
        arch = str(entry.get("name") or "") if is_gpu else ""
        names = (_handle(entry.get("id")),)
        yield Agent(names=names, product=product, arch=arch, cus=whole(entry.get("cu_count")) or None, is_gpu=is_gpu)


def _dispatches(tool: Mapping[str, Any], records: list[Any], remarks: Remarks) -> Iterator[Dispatch]:
    symbols = {whole(symbol.get("kernel_id")): symbol for symbol in map(_mapping, _listed(tool.get("kernel_symbols")))}
    for number, record in enumerate(map(_mapping, records)):
        info = _mapping(record.get("dispatch_info"))
        symbol = symbols.get(whole(info.get("kernel_id")), {})
        start, end = whole(record.get("start_timestamp")), whole(record.get("end_timestamp"))
        if start is None or end is None or end <= start:
            remarks.add("no duration, left out", f"dispatch {number} has no duration and is left out")
            continue
        name = next((str(symbol[key]) for key in SYMBOL_NAMES if symbol.get(key)), "")
        if not name:
            remarks.add("no kernel name", f"dispatch {number} names a kernel that is not in the trace")
        workgroup = _xyz(info.get("workgroup_size"))
        yield Dispatch(
            name=name.removesuffix(".kd") or f"(kernel {info.get('kernel_id')})",
            start_ns=start,
            took_ns=end - start,
            agent=_handle(info.get("agent_id")),
            grid=in_workgroups(_xyz(info.get("grid_size")), workgroup),
            workgroup=workgroup,
            lds_bytes=whole(info.get("group_segment_size", symbol.get("group_segment_size"))),
            scratch_bytes=whole(info.get("private_segment_size", symbol.get("private_segment_size"))),
            vgpr=whole(symbol.get("arch_vgpr_count")),
            agpr=whole(symbol.get("accum_vgpr_count")),
            sgpr=whole(symbol.get("sgpr_count")),
        )


def _xyz(value: Any) -> tuple[int, int, int] | None:
    return dim3(_mapping(value).get(axis) for axis in "xyz")
