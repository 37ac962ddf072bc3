"""Knows the CSV files of rocprofv3: kernel trace, agent list, memory copies; a column may be absent or renamed."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping

from gate.model.problem import Problem, UnusableInput
from gate.profiling.trace import Agent, Dispatch, Remarks, Trace, dim3, in_workgroups, whole

# Columns by their name without case and separators; older tools (rocprof, rocprofv2) wrote the later spellings.
NAMES: Mapping[str, tuple[str, ...]] = {
    "name": ("kernelname", "name", "kernel"),
    "start": ("starttimestamp", "beginns", "startns", "start"),
    "end": ("endtimestamp", "endns", "end"),
    "kind": ("kind", "domain"),
    "agent": ("agentid", "gpuid", "agent"),
    "lds": ("ldsblocksize", "ldsbytes", "lds", "ldspergroup"),
    "scratch": ("scratchsize", "scr", "scratchperworkitem"),
    "vgpr": ("vgprcount", "archvgpr", "archvgprcount", "vgpr"),
    "agpr": ("accumvgprcount", "accumvgpr", "agpr"),
    "sgpr": ("sgprcount", "sgpr"),
    "wx": ("workgroupsizex",),
    "wy": ("workgroupsizey",),
    "wz": ("workgroupsizez",),
    "gx": ("gridsizex",),
    "gy": ("gridsizey",),
    "gz": ("gridsizez",),
}
REQUIRED = ("name", "start", "end")
# What a reader misses when the column is absent.
TELLS = {
    "agent": "which GPU ran a kernel",
    "lds": "LDS",
    "scratch": "scratch memory",
    "vgpr": "registers",
    "wx": "the workgroup",
    "gx": "the grid",
}
LONGEST_FIELD = 1 << 24


def kernel_trace(text: str, *, file: str) -> Trace:
    """The dispatches of a kernel trace in order of their start.

    A line that cannot be read is left out and named in the notes. Raises UnusableInput when the file is empty, is not
    a kernel trace, or has no line that can be read.
    """
    rows = _rows(text, file=file)
    columns = _columns(next(rows, (1, []))[1], file=file)
    remarks = Remarks()
    for field, what in TELLS.items():
        if field not in columns:
            remarks.add(field, f"{file} has no column {NAMES[field][0]}: {what} is not told")
    found = [one for line, row in rows if (one := _dispatch(row, line, columns, remarks)) is not None]
    if not found:
        told = "; ".join(remarks.texts()[:1]) or "it has a header and no line"
        raise UnusableInput(Problem(what=f"no dispatch in it: {told}", file=file, fix="profile again"))
    ordered = tuple(sorted(found, key=lambda one: one.start_ns))
    return Trace(tool="rocprofv3", dispatches=ordered, lds_exact=False, notes=remarks.texts())


def _rows(text: str, *, file: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    try:
        for row in reader:
            if row and any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise UnusableInput(
            Problem(what=f"not CSV: {error}", file=file, line=reader.line_num, fix="profile again")
        ) from None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _columns(header: list[str], *, file: str) -> dict[str, int]:
    if not header:
        raise UnusableInput(Problem(what="the file is empty", file=file, fix="did the profiled program run?"))
    places = {_plain(name): place for place, name in reversed(list(enumerate(header)))}
    found = {
        field: places[spelling]
        for field, spellings in NAMES.items()
        if (spelling := next((one for one in spellings if one in places), None)) is not None
    }
    absent = [NAMES[field][0] for field in REQUIRED if field not in found]
    if absent:
        what = f"not a kernel trace: no column {', '.join(absent)} in {', '.join(header[:6])[:120]}"
        raise UnusableInput(Problem(what=what, file=file, line=1, fix="give rocprofv3's *_kernel_trace.csv"))
    return {"width": len(header), **found}


def _dispatch(row: list[str], line: int, columns: Mapping[str, int], remarks: Remarks) -> Dispatch | None:
    if len(row) < columns["width"]:
        remarks.add(
            "cut off, left out", f"line {line} is cut off ({len(row)} of {columns['width']} fields) and left out"
        )
        return None
    cell = {field: row[place].strip() for field, place in columns.items() if field != "width"}
    if "kind" in cell and cell["kind"] and "KERNEL" not in cell["kind"].upper():
        remarks.add("no kernels, left out", f"line {line} is no kernel but {cell['kind'][:40]}, left out")
        return None
    start, end = whole(cell["start"]), whole(cell["end"])
    if start is None or end is None or end <= start:
        told = f"{cell['start'][:24]!r} to {cell['end'][:24]!r}"
        remarks.add("no duration, left out", f"line {line} has no duration ({told}) and is left out")
        return None
    workgroup = dim3(cell.get(name) for name in ("wx", "wy", "wz"))
    return Dispatch(
        name=cell["name"] or "(no name)",
        start_ns=start,
        took_ns=end - start,
        agent=cell.get("agent", ""),
        grid=in_workgroups(dim3(cell.get(name) for name in ("gx", "gy", "gz")), workgroup),
        workgroup=workgroup,
        lds_bytes=whole(cell.get("lds")),
        scratch_bytes=whole(cell.get("scratch")),
        vgpr=whole(cell.get("vgpr")),
        agpr=whole(cell.get("agpr")),
        sgpr=whole(cell.get("sgpr")),
    )


def agents(text: str, *, file: str) -> tuple[Agent, ...]:
    """The GPUs and CPUs of an agent list. Raises UnusableInput when it is none."""
    rows = _rows(text, file=file)
    header = [_plain(name) for name in next(rows, (1, []))[1]]
    if not {"nodeid", "agenttype"} <= set(header):
        raise UnusableInput(Problem(what="not an agent list", file=file, fix="give rocprofv3's *_agent_info.csv"))
    found: list[Agent] = []
    for _, row in rows:
        cell = dict(zip(header, row, strict=False))
        is_gpu = cell.get("agenttype", "").upper() == "GPU"
        nth = sum(agent.is_gpu == is_gpu for agent in found)
        # rocprofv3 --agent-index: relative counts agents, type-relative counts those of a kind, absolute is the node.
        index = cell.get("logicalnodeid") or cell.get("nodeid", "")
        names = (f"Agent {index}", f"{cell.get('agenttype', '').upper()} {nth}")
        product = cell.get("productname", "") or cell.get("modelname", "")
        arch = cell.get("name", "") if is_gpu else ""
        found.append(
            Agent(names=names, product=product, arch=arch, cus=whole(cell.get("cucount")) or None, is_gpu=is_gpu)
        )
    return tuple(found)


def copies(text: str) -> int:
    """How many memory copies a memory-copy trace holds."""
    return max(sum(1 for line in text.splitlines() if line.strip()) - 1, 0)
