"""How measured arms become result rows: one per (shape, provider), whatever happened, with its provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from gate.model.matrix import Matrix, MatrixProvider, ProviderName
from gate.model.outcome import CacheState, Outcome, Status
from gate.model.shape import Shape
from gate.replay.blocks import BASE, CONTROL, HEAD, split_control
from gate.replay.timer import is_dispatch_bound, summarise

Record = Mapping[str, Any]


def build_rows(
    *,
    side: str,
    shapes: Sequence[Shape],
    matrices: Mapping[str, Matrix],
    records: Mapping[str, Record],
    session: Mapping[str, Any],
    not_selected: Mapping[tuple[str, str], str],
) -> list[Outcome]:
    """The rows of one side in ledger order, providers in matrix order.

    `records` are the journal's shapes by id; `session` holds session_id, seed, method, both, driver, commits, stopped;
    `not_selected` says why a (shape_id, provider) was left out.
    """
    rows: list[Outcome] = []
    for shape in shapes:
        matrix = matrices.get(shape.op_type)
        for name, entry in matrix.providers.items() if matrix is not None else ():
            assert matrix is not None
            record = records.get(shape.shape_id)
            measured_side = side if name == matrix.candidate_provider else CONTROL
            arm = None if record is None else record["arms"].get(f"{measured_side}/{name}")
            row = _blank(shape, name=name, side=side, session=session, record=record, measured_side=measured_side)
            why = not_selected.get((shape.shape_id, name))
            rows.append(
                _fill(
                    row,
                    entry=entry,
                    arm=arm,
                    record=record,
                    session=session,
                    side=side,
                    control=measured_side == CONTROL,
                    why=why,
                )
            )
    return rows


def _blank(
    shape: Shape, *, name: str, side: str, session: Mapping[str, Any], record: Record | None, measured_side: str
) -> dict[str, Any]:
    environment = {} if record is None else record["environments"].get(measured_side, {})
    return {
        "run_id": f"{session['session_id']}-{side}",
        "session_id": session["session_id"],
        "shape_id": shape.shape_id,
        "provider": cast(ProviderName, name),
        "provider_detail": None,
        "candidate_commit": session["commits"].get(side)
        or environment.get("flydsl_commit")
        or environment.get("flydsl"),
        "gpu": environment.get("gpu"),
        "arch": environment.get("arch"),
        "rocm_version": environment.get("runtime"),
        "correct": None,
        "warmup_iters": None,
        "repeat_iters": None,
        "driver_version": session.get("driver"),
        "torch_version": environment.get("torch"),
        "triton_version": environment.get("triton"),
        "flydsl_version": environment.get("flydsl"),
        "model": shape.model,
        "stage": shape.stage,
        "dtype": shape.dtype,
        "op_type": shape.op_type,
        "args": dict(shape.args),
    }


def _fill(
    row: dict[str, Any],
    *,
    entry: MatrixProvider,
    arm: Record | None,
    record: Record | None,
    session: Mapping[str, Any],
    side: str,
    control: bool,
    why: str | None,
) -> Outcome:
    if not entry.enabled:
        return _without(row, status="not_configured", reason=entry.skip_reason or "disabled in the matrix")
    if why is not None:
        return _without(row, status="skipped", reason=why)
    if arm is None or record is None:
        return _without(row, status="skipped", reason=session.get("stopped") or "not measured in this run")
    row |= {
        "provider_detail": arm["detail"],
        "includes_allocation": arm["allocation"],
        "includes_layout_conversion": arm["layout"],
        "includes_jit": arm["jit"],
        "graph_capture_error": arm["capture_error"],
        "baseline_commit": arm["commit"],
    }
    if arm["status"] != "ok":
        return _failed(row, arm)
    row["correct"] = True
    if not arm["visits"]:
        return Outcome(**row, benchmark_status="ok")
    return _timed(row, arm=arm, record=record, session=session, side=side, control=control)


def _without(row: dict[str, Any], *, status: Status, reason: str) -> Outcome:
    return Outcome(**row, benchmark_status=status, skip_reason=reason)


def _failed(row: dict[str, Any], arm: Record) -> Outcome:
    text = arm["reason"] if arm["code"] is None else f"{arm['code']}: {arm['reason']}"
    incorrect = arm["status"] == "incorrect"
    row |= {"correct": False if incorrect else None, "correctness_error": text if incorrect else None}
    return Outcome(**row, benchmark_status=cast(Status, arm["status"]), skip_reason=None if incorrect else text)


def _timed(
    row: dict[str, Any], *, arm: Record, record: Record, session: Mapping[str, Any], side: str, control: bool
) -> Outcome:
    visits: Sequence[Sequence[float]] = arm["visits"]
    if session["both"] and control:
        dealt = split_control(int(session["seed"]), row["shape_id"], visits)
        visits = dealt[0] if side == HEAD else dealt[1]
    flat = [value for block in visits for value in block]
    summary = summarise(flat)
    plan = arm["plan"]
    legacy = session["method"] == "cudagraph"
    floor_us, median = record["floor_us"], summary.median_us
    row |= {
        "median_us": median,
        "graph_median_us": median,
        "eager_median_us": arm["eager_us"],
        "host_overhead_us": None if arm["eager_us"] is None else arm["eager_us"] - median,
        "timing_method": "cudagraph" if legacy else "graph_slope",
        "cache_state": cast(CacheState, _cache_label(plan, record, legacy=legacy)),
        "p10_us": summary.p10_us,
        "p90_us": summary.p90_us,
        "mean_us": summary.mean_us,
        "std_us": summary.std_us,
        "min_us": summary.min_us,
        "stable": summary.stable,
        "warmup_iters": len(flat),
        "repeat_iters": len(flat),
        "graph_replay_count": 2 * len(flat),
        "loops_per_measure": 1 if legacy else plan["launches"],
        "blocks_us": tuple(tuple(block) for block in visits),
        "block_process": tuple(arm["processes"]),
        "control": True if session["both"] and control else None,
        "effective_gbps": arm["bytes_moved"] / median / 1e3 if arm["bytes_moved"] else None,
        "effective_tflops": arm["flops"] / median / 1e6 if arm["flops"] else None,
        "floor_us": floor_us,
        "device_us": arm["profiled_us"],
        "dispatch_bound": None if floor_us is None or legacy else is_dispatch_bound(median, floor_us),
        "notes": "; ".join(arm["notes"]) or None,
    }
    return Outcome(**row, benchmark_status="ok")


def _cache_label(plan: Mapping[str, Any], record: Record, *, legacy: bool) -> str:
    if legacy:
        return "l2_flushed_graph"
    label = str(plan["cache_state"])
    return label if label == "hot" or record["cold_proven"] else "unverified"


def both_sides(session: Mapping[str, Any]) -> tuple[str, ...]:
    """The sides whose rows are written."""
    return (HEAD, BASE) if session["both"] else (HEAD,)
