"""Knows what a change of machine code is worth: base and head records in, findings and one verdict out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gate.model.codegen import (
    CODEGEN_VERDICTS,
    CodegenChange,
    CodegenCode,
    CodegenFinding,
    CodegenRecord,
    CodegenSeverity,
    CodegenThresholds,
    CodegenVerdict,
    Metrics,
)
from gate.model.problem import Exit

DEFAULTS = CodegenThresholds()
_LOAD = re.compile(r"^(?:buffer|global|flat)_load_(?:lds_)?(\w+)$")
_WIDE = re.compile(r"^dwordx[234]$")


def compare(
    base: CodegenRecord | None, head: CodegenRecord | None, thresholds: CodegenThresholds = DEFAULTS
) -> CodegenChange:
    """Return what changed for one compile key from base to head.

    Pure: compile time and toolchain do not count, only status, resources and text. Raises ValueError when both sides
    are absent or their keys differ.
    """
    either = head or base
    if either is None or (base and head and base.compile_key != head.compile_key):
        raise ValueError("compare needs one compile key on at least one side")
    verdict, findings = _judge(base, head, thresholds)
    return CodegenChange(compile_key=either.compile_key, verdict=verdict, findings=findings, base=base, head=head)


def compare_all(
    base: Mapping[str, CodegenRecord],
    head: Mapping[str, CodegenRecord],
    thresholds: CodegenThresholds = DEFAULTS,
) -> tuple[CodegenChange, ...]:
    """Compare two sets of records by compile key: head's order first, then what only base has."""
    keys = dict.fromkeys([*head, *base])
    return tuple(compare(base.get(key), head.get(key), thresholds) for key in keys)


def tally(changes: Iterable[CodegenChange]) -> dict[str, int]:
    """How many compile keys have each verdict, worst first, verdicts without any left out."""
    counts = Counter[str](change.verdict for change in changes)
    return {verdict: counts[verdict] for verdict in CODEGEN_VERDICTS if counts[verdict]}


def exit_code(changes: Sequence[CodegenChange], *, accept_still_failing: bool = False) -> Exit:
    """The gate's exit code for a comparison: block when one fails, no verdict when one was not compared, else pass.

    A kernel that refuses the arch or the case on both sides has nothing to compare; one that breaks on both sides
    was not judged, unless the policy accepts that.
    """
    if any(change.verdict == "fail" for change in changes):
        return Exit.BLOCK
    if not changes or any(_unjudged(change, accept_still_failing) for change in changes):
        return Exit.NO_VERDICT
    return Exit.PASS


def _unjudged(change: CodegenChange, accept_still_failing: bool) -> bool:
    if change.verdict == "still_failing":
        refused = change.head is not None and change.head.status == "unsupported"
        return not (accept_still_failing or refused)
    return change.verdict == "missing"


def _judge(
    base: CodegenRecord | None, head: CodegenRecord | None, limits: CodegenThresholds
) -> tuple[CodegenVerdict, tuple[CodegenFinding, ...]]:
    if head is None:
        return "missing", (_say("not_compiled", "warn", "base has this kernel and head has no record of it."),)
    if head.metrics is None:
        return _uncompiled(base, head)
    if base is None:
        return "new", ()
    if base.metrics is None:
        return "fixed", ()
    same_text = base.isa_sha == head.isa_sha
    if same_text and _resources(base.metrics) == _resources(head.metrics):
        return _same(base, head)
    findings = tuple(_findings(head.op_type, base.metrics, head.metrics, limits))
    if not findings:
        findings = (_unremarkable(base.metrics, head.metrics),)
    severities = [finding.severity for finding in findings]
    verdict: CodegenVerdict = "fail" if "fail" in severities else "warn" if "warn" in severities else "info"
    return verdict, findings


def _same(base: CodegenRecord, head: CodegenRecord) -> tuple[CodegenVerdict, tuple[CodegenFinding, ...]]:
    if None in (base.launch_sha, head.launch_sha) or base.launch_sha == head.launch_sha:
        return "same", ()
    text = "the machine code is equal and the launch around it differs (grid, block or arguments)."
    return "info", (_say("launch_differs", "info", text),)


def _uncompiled(base: CodegenRecord | None, head: CodegenRecord) -> tuple[CodegenVerdict, tuple[CodegenFinding, ...]]:
    why = f"{head.status}: {head.error or 'no message'}"
    if base is None:
        return "new", (_say("does_not_compile", "warn", f"new, and it does not compile ({why})."),)
    if base.metrics is None:
        return "still_failing", (_say("does_not_compile", "info", f"compiles on neither side ({why})."),)
    return "fail", (_say("no_longer_compiles", "fail", f"compiled in base and not in head ({why})."),)


def _resources(metrics: Metrics) -> tuple[int, ...]:
    return (
        metrics.vgpr,
        metrics.agpr,
        metrics.sgpr,
        metrics.vgpr_spills,
        metrics.sgpr_spills,
        metrics.scratch_bytes,
        metrics.lds_bytes,
        metrics.workgroup_size,
        metrics.waves_per_simd,
    )


def _unremarkable(base: Metrics, head: Metrics) -> CodegenFinding:
    if _resources(base) == _resources(head):
        counts = f"{base.instructions} to {head.instructions} instructions"
        text = f"the text differs and the resources are equal ({counts})."
        return _say("text_differs", "info", text)
    text = (
        f"VGPRs {base.vgpr} to {head.vgpr}, SGPRs {base.sgpr} to {head.sgpr}, LDS {base.lds_bytes} to "
        f"{head.lds_bytes} bytes, instructions {base.instructions} to {head.instructions}; no threshold is crossed."
    )
    return _say("resources_differ", "info", text)


def _findings(op_type: str, base: Metrics, head: Metrics, limits: CodegenThresholds) -> Iterator[CodegenFinding]:
    yield from _memory_findings(base, head, limits)
    if head.waves_per_simd < base.waves_per_simd:
        bound = op_type in limits.occupancy_bound
        text = (
            f"waves per SIMD fell from {base.waves_per_simd} to {head.waves_per_simd} "
            f"(VGPRs {base.vgpr} to {head.vgpr}, LDS {base.lds_bytes} to {head.lds_bytes} bytes)"
            + (f"; {op_type} is declared occupancy-bound." if bound else ".")
        )
        yield _say("wave_lost", "fail" if bound else "warn", text)
    if head.instructions > base.instructions * (1 + limits.instruction_growth):
        growth = head.instructions / base.instructions - 1
        text = f"instructions grew from {base.instructions} to {head.instructions} ({growth:+.1%})."
        yield _say("instructions_grew", "warn", text)
    yield from _mix_findings(base, head, limits)


def _memory_findings(base: Metrics, head: Metrics, limits: CodegenThresholds) -> Iterator[CodegenFinding]:
    if head.spills > base.spills:
        text = (
            f"register spills went from {base.spills} to {head.spills} "
            f"({head.vgpr_spills} vector, {head.sgpr_spills} scalar)."
        )
        yield _say("spills_grew", "warn", text) if base.spills else _say("spills_appeared", "fail", text)
    if head.scratch_bytes and not base.scratch_bytes:
        text = f"scratch memory appeared: {head.scratch_bytes} bytes per lane, none before."
        yield _say("scratch_appeared", "fail", text)
    if head.lds_bytes > limits.lds_limit_bytes:
        text = f"LDS takes {head.lds_bytes} bytes and the limit is {limits.lds_limit_bytes} (base: {base.lds_bytes})."
        yield _say("lds_over_limit", "fail", text)


def _mix_findings(base: Metrics, head: Metrics, limits: CodegenThresholds) -> Iterator[CodegenFinding]:
    wide, narrow = _loads(base.mix)
    wide_now, narrow_now = _loads(head.mix)
    if wide_now < wide and narrow_now > narrow:
        text = (
            f"vector loads went from {wide} to {wide_now} while loads of one register or less went "
            f"from {narrow} to {narrow_now}."
        )
        yield _say("vector_loads_lost", "warn", text)
    waits, waits_now = base.mix.get("s_waitcnt vmcnt(0)", 0), head.mix.get("s_waitcnt vmcnt(0)", 0)
    if waits and waits_now >= limits.vmcnt0_factor * waits:
        text = f"full waits on memory, vmcnt(0), went from {waits} to {waits_now}."
        yield _say("vmcnt0_doubled", "warn", text)
    if head.agpr and not base.agpr:
        yield _say("agprs_appeared", "warn", f"{head.agpr} AGPRs are used, none before.")


def _loads(mix: Mapping[str, int]) -> tuple[int, int]:
    """Loads from memory of 64 bits or more, and narrower ones."""
    wide = narrow = 0
    for name, count in mix.items():
        match = _LOAD.match(name)
        if match and _WIDE.match(match.group(1)):
            wide += count
        elif match:
            narrow += count
    return wide, narrow


def _say(code: CodegenCode, severity: CodegenSeverity, text: str) -> CodegenFinding:
    return CodegenFinding(code=code, severity=severity, text=text)
