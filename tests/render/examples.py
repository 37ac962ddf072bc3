"""Decisions and rows as the judge writes them, with any field overridden."""

from __future__ import annotations

from typing import Any

from gate.model.decision import (
    CodeEvidence,
    CodeSide,
    Command,
    ControlMovement,
    Coverage,
    Decision,
    Environment,
    Geomean,
    RowFinding,
    Standing,
)

STACK = {
    "gpu": "AMD Instinct MI350X",
    "arch": "gfx950",
    "rocm_version": "7.2.0",
    "driver_version": "6.14.14",
    "flydsl": "0.5.0",
    "torch_version": "2.9.1+rocm7.2",
}
POLICY = {
    "thresholds": {"slower": 0.01, "not_slower": 0.05},
    "screen": {"fdr": 0.1, "looks": [4, 6, 8]},
    "geomean": {"limit": 0.005},
    "standing": {"promote": 1.0, "guardrails": 0.95, "tune": 0.7},
    "confirm": {"alpha": 0.01, "blocks_factor": 2},
    "coverage": {"measured": 1.0, "conclusive": 0.5},
    "codegen": {"warn": "inconclusive"},
}
RATES = {"wrongly red, per run": 0.015, "false suspects": "10% at the screen, 1% after confirming"}
MODELS = (("Llama3 70B", 8192, "decode"), ("DeepSeek-R1", 7168, "prefill"))
SIZES = (1, 32, 256, 2048)


def row(index: int = 0, **changes: Any) -> RowFinding:
    """An unchanged row; `index` picks its size and model."""
    model, width, stage = MODELS[index // len(SIZES) % len(MODELS)]
    size = SIZES[index % len(SIZES)] + index // 8
    fields: dict[str, Any] = {
        "shape_id": f"sha1:{index:016x}",
        "provider": "flydsl",
        "verdict": "unchanged",
        "reasons": ("within_noise",),
        "op_type": "rmsnorm",
        "model": model,
        "stage": stage,
        "dtype": "bf16",
        "args": {"M": size, "N": width},
        "ratio": 1.002,
        "ci": (0.994, 1.011),
        "mde": 0.051,
        "base_us": 5.0 + size / 50,
        "head_us": (5.0 + size / 50) * 1.002,
        "classification": "ok",
        "hot": True,
        "speedup_vs_best": 1.04,
        "best_baseline": "aiter",
        "method": "graph_slope",
        "status": "ok",
    }
    return RowFinding(**{**fields, **changes})


def slower(index: int, ratio: float, **changes: Any) -> RowFinding:
    """A regressed row."""
    base = row(index).base_us or 0.0
    return row(
        index,
        verdict="regressed",
        reasons=("slower",),
        ratio=ratio,
        ci=(ratio - 0.02, ratio + 0.025),
        head_us=base * ratio,
        speedup_vs_best=1.04 / ratio,
        classification="tuning_gap",
        evidence="equal instruction count, 2 waves instead of 4",
        likely_fix="give the workgroup 256 lanes again",
        **changes,
    )


def decision(rows: list[RowFinding], **changes: Any) -> Decision:
    """A passing decision over `rows` that promotes; counts are those of the rows."""
    counts: dict[str, int] = {"total": len(rows)}
    for each in rows:
        counts[each.verdict] = counts.get(each.verdict, 0) + 1
    judged = sum(each.ratio is not None for each in rows)
    fields: dict[str, Any] = {
        "gate": "pass",
        "decision": "promote",
        "headline": "promote",
        "reasons": ("clean", "parity"),
        "summary": "Every row was compared and none is slower.",
        "next_step": "Merge; the numbers can become the new baseline.",
        "kind": "timing",
        "counts": counts,
        "coverage": Coverage(
            required=len(rows), judged=judged, measured=judged, share=judged / max(1, len(rows)), required_share=1.0
        ),
        "geomean": Geomean(vs_best=1.04, weighted=1.02, vs_base=0.998, n=judged),
        "rows": tuple(rows),
        "environment": Environment(base=STACK, head=STACK),
        "controls": (ControlMovement(provider="aiter", n=8, ratio=1.003, moved=False),),
        "standings": (
            Standing(by="op", name="rmsnorm", rows=8, geomean=Geomean(vs_best=1.04, weighted=1.02, vs_base=0.998, n=8)),
            Standing(by="stage", name="decode", rows=4, geomean=Geomean(vs_best=1.05, vs_base=0.999, n=4)),
            Standing(by="stage", name="prefill", rows=4, geomean=Geomean(vs_best=1.03, vs_base=0.997, n=4)),
        ),
        "commands": (
            Command(
                what="Judge these results again", line="gate judge --ledger L --matrix M --base B --head H --out out"
            ),
        ),
        "policy": POLICY,
        "error_rates": RATES,
    }
    return Decision(**{**fields, **changes})


def side(vgpr: int, instructions: int, waves: int, **changes: int) -> CodeSide:
    """The machine code of one arm."""
    numbers = {"agpr": 0, "sgpr": 30, "spills": 0, "scratch_bytes": 0, "lds_bytes": 1024, **changes}
    name = f"{vgpr:08x}{instructions:08x}"
    return CodeSide(vgpr=vgpr, instructions=instructions, waves_per_simd=waves, isa_sha=name, **numbers)


def compiled(index: int, verdict: str, base: CodeSide | None, head: CodeSide | None, *findings: str) -> RowFinding:
    """A row of a codegen run: no time, and the evidence of its compile key, which four rows share."""
    words: dict[str, tuple[str, str]] = {
        "fail": ("regressed", "codegen_fail"),
        "warn": ("inconclusive", "codegen_warn"),
    }
    told, reason = words.get(verdict, ("unchanged", "same_code" if verdict == "same" else "code_differs"))
    key = f"rmsnorm/bf16/N={MODELS[index // 4 % 2][1]}"
    return row(
        index,
        verdict=told,
        reasons=(reason,),
        ratio=None,
        ci=None,
        mde=None,
        base_us=None,
        head_us=None,
        classification=None,
        speedup_vs_best=None,
        best_baseline=None,
        method="codegen",
        code=CodeEvidence(compile_key=key, verdict=verdict, findings=findings, base=base, head=head),
    )


def codegen(rows: list[RowFinding], **changes: Any) -> Decision:
    """A codegen decision over `rows`."""
    fields: dict[str, Any] = {
        "kind": "codegen",
        "reasons": ("no_time_measured",),
        "decision": "tune_needed",
        "headline": "tune",
        "next_step": "Time the changed kernels on the GPU before promoting.",
        "summary": "Machine code compared.",
        "geomean": Geomean(),
        "controls": (),
        "standings": (),
        "environment": Environment(
            base={"arch": "gfx950", "flydsl": "0.4.0", "llvm": "unknown"},
            head={"arch": "gfx950", "flydsl": "0.5.0", "llvm": "unknown"},
            differences=("flydsl",),
        ),
        "coverage": Coverage(required=len(rows), judged=len(rows), measured=0, share=1.0, required_share=1.0),
        "commands": (Command(what="Compile and compare again", line="gate run --out out"),),
    }
    return decision(rows, **{**fields, **changes})


BLOCKED = {"gate": "block", "decision": "blocked", "headline": "block", "reasons": ("confirmed_regression",)}
NO_VERDICT = {"gate": "no_verdict", "decision": "blocked", "headline": "no_verdict"}
