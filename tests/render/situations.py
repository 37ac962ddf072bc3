"""One decision for each situation that a comment must tell well."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from gate import render
from gate.model.decision import Command, ControlMovement, Decision, Environment, Geomean, RowFinding
from tests.render.examples import BLOCKED, NO_VERDICT, STACK, codegen, compiled, decision, row, side, slower

TARGET = "https://ci.example/run/7"
REPEAT = Command(
    what="Repeat the worst row on the GPU",
    line="gate replay --op rmsnorm --ledgers frozen_ledgers --shape sha1:0000000000000003 --out again",
)
HOSTILE = (
    "<img src=x onerror=alert(1)><!-- flydsl-gate:main v1 -->",
    "@ROCm/all please merge",
    "line1\nline2\n\n# heading\n| a | b |",
    "a|b \\| c `x` **bold** ~~no~~",
    "fixes #12 and o/r#3 GH-4 https://evil.example/x www.evil.example mail@evil.example",
    "![img](https://evil.example/i.png) [link](javascript:alert(1)) </details></td>",
    "\u202eabc\u202c \x00\x1b[31m \u200b \U0001f600 :tada: $x^2$ \ud800",
    "x" * 5000,
)


def _unmeasured(index: int, reason: str, **changes: Any) -> RowFinding:
    fields: dict[str, Any] = {"verdict": "not_run", "reasons": (reason,), "ratio": None, "ci": None, "mde": None}
    fields |= {"head_us": None, "speedup_vs_best": None, "best_baseline": None, "classification": None, "status": None}
    return row(index, **{**fields, **changes})


def _pass_promote() -> Decision:
    faster = row(5, verdict="improved", reasons=("faster",), ratio=0.81, ci=(0.8, 0.82), head_us=4.12)
    return decision([*(row(index) for index in range(5)), faster, row(6), row(7)])


def _pass_tune() -> Decision:
    far = {"speedup_vs_best": 0.62, "classification": "implementation_gap", "evidence": "half the bandwidth of aiter"}
    rows = [row(i, **far, likely_fix="load 16 bytes a lane") if i in (1, 6) else row(i) for i in range(8)]
    return decision(
        rows,
        decision="tune_needed",
        headline="tune",
        reasons=("clean", "below_parity"),
        next_step="Profile the rows behind the best baseline.",
        geomean=Geomean(vs_best=0.88, weighted=0.82, vs_base=1.001, n=8),
    )


def _guardrails() -> Decision:
    return decision(
        [row(index, speedup_vs_best=0.97) for index in range(8)],
        decision="promote_with_guardrails",
        reasons=("clean", "near_parity"),
        geomean=Geomean(vs_best=0.97, vs_base=1.0, n=8),
    )


def _block_one_row() -> Decision:
    rows = [slower(i, 1.204) if i == 3 else row(i) for i in range(8)]
    step = "Repeat the worst row with the command below, then bisect."
    return decision(rows, **BLOCKED, next_step=step, commands=(REPEAT, *decision([]).commands))


def _block_many_kinds() -> Decision:
    failed = {"head_us": None, "ratio": None, "ci": None, "speedup_vs_best": None, "classification": None}
    rows = [
        slower(0, 1.08),
        slower(1, 10.4),
        row(
            2,
            verdict="newly_failed",
            reasons=("newly_failed",),
            detail="HIP error 719: unspecified launch failure",
            **failed,
        ),
        row(
            3, verdict="newly_incorrect", reasons=("newly_incorrect",), detail="max error 0.31, allowed 0.02", **failed
        ),
        row(4, verdict="missing", reasons=("missing",), **failed),
        row(5, verdict="improved", reasons=("faster",), ratio=0.7, ci=(0.69, 0.71), head_us=3.6),
        row(6, verdict="inconclusive", reasons=("wide_interval", "unstable"), ratio=1.03, ci=(0.95, 1.12), mde=0.18),
        row(7),
    ]
    return decision(rows, **BLOCKED, next_step="Start with the row that gives wrong results.")


def _no_verdict() -> Decision:
    rows = [_unmeasured(index, "not_run", base_us=5.0) for index in range(8)]
    gap = ("nothing_measured",)
    return decision(
        rows, **NO_VERDICT, reasons=gap, geomean=Geomean(), next_step="Look at the log of the bench job.", standings=()
    )


def _first_run() -> Decision:
    rows = [
        _unmeasured(index, "no_baseline", verdict="new", base_us=None, head_us=5.1, status="ok") for index in range(8)
    ]
    step = "Record this run as the baseline with the command below."
    record = Command(what="Record the baseline", line="gate baseline record --from out --to frozen_ledgers")
    return decision(
        rows,
        **NO_VERDICT,
        reasons=("first_run",),
        geomean=Geomean(vs_best=1.1, n=8),
        next_step=step,
        commands=(record,),
        controls=(),
    )


def _environment_moved() -> Decision:
    rows = [row(i, verdict="not_comparable", reasons=("control_moved",), ratio=1.16, ci=None) for i in range(8)]
    moved = tuple(ControlMovement(provider=name, n=8, ratio=1.16, moved=True) for name in ("aiter", "pytorch"))
    absent = ControlMovement(provider="aiter_triton", n=0, ratio=None, moved=False, absent=True)
    stack = Environment(base=STACK, head={**STACK, "driver_version": "6.16.13"}, differences=("driver_version",))
    step = "Measure base and head again in one session."
    return decision(
        rows, **NO_VERDICT, reasons=("control_moved",), controls=(*moved, absent), environment=stack, next_step=step
    )


def _codegen_same() -> Decision:
    rows = [compiled(i, "same", side(45, 581, 8), side(45, 581, 8)) for i in range(8)]
    return codegen(rows, next_step="Nothing to do for the compiler.")


def _codegen_warn() -> Decision:
    warn = ("instructions 341 → 361 (+5.9%)", "a wave is lost: 4 → 3")
    first = [compiled(i, "warn", side(128, 341, 4), side(136, 361, 3), *warn) for i in range(4)]
    return codegen(
        [*first, *(compiled(i, "info", side(45, 581, 8), side(45, 580, 8), "text differs") for i in range(4, 8))]
    )


def _codegen_fail() -> Decision:
    found = "registers spill: 0 → 20"
    rows = [compiled(i, "fail", side(80, 576, 6), side(128, 701, 4, spills=20), found) for i in range(4)]
    rows += [compiled(i, "same", side(45, 581, 8), side(45, 581, 8)) for i in range(4, 7)]
    bare = _unmeasured(7, "unsupported", detail="dtype fp8: the kernel is written for bf16, f16, f32")
    return codegen(
        [*rows, bare], **{**BLOCKED, "reasons": ("codegen_fail",)}, next_step="Find what made the kernel spill."
    )


def _codegen_alike() -> Decision:
    """Forty kernels of which 30 changed alike, in a run that covers one op of three."""
    rows = []
    for index in range(40):
        quiet = "instructions 581 → 580" if index % 7 else "instructions 581 → 580, two loads merged"
        case = ("info", side(45, 581, 8), side(45, 580, 8), quiet)
        if index < 30:
            case = ("warn", side(128, 341, 4), side(136, 361, 3), "a wave is lost: 4 → 3")
        each = compiled(index, *case)
        code = msgspec.structs.replace(each.code, compile_key=f"rmsnorm/bf16/N={128 * (index + 1)}")
        rows.append(msgspec.structs.replace(each, code=code))
    scope = "40 of 493 frozen shapes; not part of this run, by op: gemm (300), softmax (153)"
    return codegen(rows, scope=scope)


def _waivers() -> Decision:
    waived = row(3, verdict="waived", reasons=("waived",), ratio=1.204, ci=(1.19, 1.22), head_us=55.2)
    waiver = {"shape_id": waived.shape_id, "provider": "flydsl", "max_ratio": 1.25, "expires": "2099-01-01"}
    why = {"reason": "accepted for the fused path", "issue": "https://github.com/ROCm/FlyDSL/issues/1"}
    use = {"waiver": waiver | why, "state": "used", "ratio": 1.204}
    return decision([waived if i == 3 else row(i) for i in range(8)], waivers=(use,), reasons=("waived", "parity"))


def _partial_run() -> Decision:
    rows = [row(i) if i < 5 else _unmeasured(i, "not_run") for i in range(8)]
    return decision(
        rows,
        **NO_VERDICT,
        reasons=("coverage", "partial_run"),
        problems=("head.jsonl:6: not valid JSON: Input data was truncated; the line is cut off or not strict JSON",),
        next_step="Run the missing rows with --resume.",
    )


def _hostile_names() -> Decision:
    rows = []
    for i, text in enumerate(HOSTILE):
        name = text.encode("utf-8", "replace").decode("utf-8")
        bad = {"model": name, "op_type": name, "dtype": name, "args": {name: name}, "detail": name}
        rows.append(
            msgspec.structs.replace(slower(i, 1.1 + i / 10), **bad, best_baseline=name, evidence=name, likely_fix=name)
        )
    every = " ".join(text[:60] for text in HOSTILE).encode("utf-8", "replace").decode("utf-8")
    stack = Environment(base={"gpu": every}, head={every: every}, differences=(every,))
    more = {"next_step": every, "summary": every, "problems": (every,), "environment": stack}
    command = Command(what=every, line="echo '``` </details> <b>@all</b>'")
    return decision(
        rows, **BLOCKED, **more, commands=(command,), waivers=({every: every},), policy={every: {every: every}}
    )


def _many_rows() -> Decision:
    return decision(
        [slower(i, 1.06 + i / 1000) for i in range(1500)], **BLOCKED, next_step="Bisect.", commands=(REPEAT,)
    )


SITUATIONS = {
    "pass_promote": _pass_promote,
    "pass_tune": _pass_tune,
    "guardrails": _guardrails,
    "block_one_row": _block_one_row,
    "block_many_kinds": _block_many_kinds,
    "no_verdict": _no_verdict,
    "first_run": _first_run,
    "environment_moved": _environment_moved,
    "codegen_same": _codegen_same,
    "codegen_warn": _codegen_warn,
    "codegen_fail": _codegen_fail,
    "codegen_alike": _codegen_alike,
    "waivers": _waivers,
    "partial_run": _partial_run,
    "hostile_names": _hostile_names,
    "many_rows_1500": _many_rows,
}


@cache
def texts_of(name: str) -> dict[str, str]:
    """The texts of a situation by file name."""
    return render.texts(SITUATIONS[name](), target=TARGET)
