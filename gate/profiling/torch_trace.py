"""Knows the trace of torch.profiler (Kineto's Chrome format): kernels with their launch form, copies and fills."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gate.model.problem import Problem, UnusableInput
from gate.profiling.trace import Agent, Dispatch, Remarks, Trace, dim3, whole

COPIES = ("gpu_memcpy", "gpu_memset")
# Kineto writes the launch form beside each kernel; a ROCm build may leave some of it out.
TELLS = {"registers per thread": "registers", "grid": "the grid", "block": "the workgroup"}


def trace(text: str, *, file: str) -> Trace:
    """The kernels of a torch.profiler trace in order of their start.

    Raises UnusableInput when the text is not whole JSON, is no such trace, or has no kernel on a GPU.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        what = f"not whole JSON: {str(error)[:80]}"
        raise UnusableInput(Problem(what=what, file=file, fix="the trace is cut off; profile again")) from None
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(events, list):
        raise UnusableInput(Problem(what="no traceEvents in it", file=file, fix="give a torch.profiler trace"))
    remarks = Remarks()
    known = [event for event in events if isinstance(event, dict)]
    kernels = [event for event in known if event.get("cat") == "kernel"]
    found = [one for event in kernels if (one := _dispatch(event, remarks)) is not None]
    if not found:
        fix = "profile on a machine with a GPU and a torch build for it"
        raise UnusableInput(Problem(what="no kernel ran on a GPU in it", file=file, fix=fix))
    for name, what in TELLS.items():
        if all(name not in _args(event) for event in kernels):
            remarks.add(name, f"{file} does not tell {what}")
    return Trace(
        tool="torch_profiler",
        dispatches=tuple(sorted(found, key=lambda one: one.start_ns)),
        agents=tuple(_agent(entry) for entry in _devices(document)),
        copies=sum(event.get("cat") in COPIES for event in known),
        notes=remarks.texts(),
    )


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _dispatch(event: Mapping[str, Any], remarks: Remarks) -> Dispatch | None:
    start, took = event.get("ts"), event.get("dur")
    if not _positive(start) or not _positive(took):
        remarks.add("no duration, left out", f"kernel {str(event.get('name'))[:60]} has no duration and is left out")
        return None
    args = _args(event)
    percent = args.get("est. achieved occupancy %")
    per_sm = args.get("blocks per SM")
    return Dispatch(
        name=str(event.get("name") or "(no name)"),
        start_ns=float(start or 0) * 1e3,
        took_ns=float(took or 0) * 1e3,
        agent=str(args.get("device", "")),
        grid=_triple(args.get("grid")),
        workgroup=_triple(args.get("block")),
        lds_bytes=whole(args.get("shared memory")),
        vgpr=whole(args.get("registers per thread")),
        occupancy=float(percent) / 100 if _positive(percent) and percent else None,
        workgroups_per_cu=float(per_sm) if _positive(per_sm) and per_sm else None,
    )


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _triple(value: Any) -> tuple[int, int, int] | None:
    return dim3(value) if isinstance(value, list) else None


def _devices(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = document.get("deviceProperties")
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _agent(entry: Mapping[str, Any]) -> Agent:
    major, minor = entry.get("computeMajor"), entry.get("computeMinor")
    product = str(entry.get("name") or "")
    # On ROCm these two hold the digits of the gfx name, which the product's name tells better.
    arch = f"sm_{major}{minor}" if "NVIDIA" in product.upper() and major is not None else ""
    return Agent(names=(str(entry.get("id", "")),), product=product, arch=arch, cus=whole(entry.get("numSms")) or None)
