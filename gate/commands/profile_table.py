"""How a diagnosis is shown in a terminal: a few lines a kernel."""

from __future__ import annotations

import math

from gate.commands.telling import say
from gate.model.diagnosis import Diagnosis, ProfiledKernel
from gate.model.text import counted

NAME = 100


def show(diagnosis: Diagnosis) -> None:
    """Writes the diagnosis as lines on stdout."""
    say(" ".join(filter(None, _head(diagnosis))))
    for kernel in diagnosis.kernels:
        for line in kernel_lines(kernel):
            say(line)
    if diagnosis.setup:
        count = sum(kernel.count for kernel in diagnosis.setup)
        kernels = counted(len(diagnosis.setup), "kernel")
        say(f"setup: {counted(count, 'dispatch', 'dispatches')} of {kernels} beside the calls")
    if diagnosis.code is not None:
        verb = "agrees with" if diagnosis.code.agrees else "differs from"
        say(f"the profile {verb} the machine code of {diagnosis.code.compile_key}")
        for fact in diagnosis.code.facts:
            say(f"  {fact.words}")
    for note in diagnosis.notes:
        say(f"note: {note}")


def _head(diagnosis: Diagnosis) -> list[str]:
    per_call = diagnosis.dispatches_per_call
    calls = "" if diagnosis.calls is None else counted(diagnosis.calls, "call")
    each = "" if per_call is None else f"of {per_call:g} dispatch{'' if per_call == 1 else 'es'}"
    time = "" if diagnosis.call_us is None else f"{diagnosis.call_us:.3f} us a call,"
    where = f"on {diagnosis.gpu or 'an unnamed GPU'} ({diagnosis.arch or 'architecture unknown'})"
    who = " ".join(filter(None, (diagnosis.op_type, diagnosis.shape_id, diagnosis.provider)))
    return [f"{who}:" if who else "", time, calls, each, where, f"by {diagnosis.tool}"]


def kernel_lines(kernel: ProfiledKernel) -> list[str]:
    """One kernel in three lines: name and count, durations, launch form."""
    took = kernel.durations
    times = f"  {took.min_us:.3f} / {took.median_us:.3f} / {took.max_us:.3f} us (min, median, max of {took.n})"
    return [f"{kernel.name[:NAME]} x {kernel.count}", times, f"  {', '.join(_form(kernel))}"]


def _form(kernel: ProfiledKernel) -> list[str]:
    registers, full = kernel.registers, kernel.occupancy
    found = []
    if kernel.grid is not None and kernel.workgroup is not None:
        found.append(f"{math.prod(kernel.grid)} workgroups of {math.prod(kernel.workgroup)}")
    if kernel.lds_bytes is not None:
        found.append(f"LDS {kernel.lds_bytes} B")
    if kernel.scratch_bytes is not None:
        found.append(f"scratch {kernel.scratch_bytes} B")
    if registers.vgpr is not None:
        told = "" if registers.factor == 1 else f" (reported {registers.vgpr_reported} x {registers.factor})"
        found.append(f"VGPR {registers.vgpr}{told}")
    elif registers.vgpr_reported is not None:
        found.append(f"VGPR reported {registers.vgpr_reported}")
    if full is not None:
        why = f", held by {full.limited_by}" if full.limited_by else ""
        found.append(f"{full.resident:g} of {full.most} {full.unit}{why}")
        if full.workgroups_per_cu is not None:
            found.append(f"{full.workgroups_per_cu:.3g} workgroups per compute unit")
    return found or ["the trace tells nothing of the launch"]
