"""Small ledgers, matrices and results, made from a seed: what the tests of the judge judge."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from gate.analysis.judge import Inputs, judge
from gate.model.decision import Decision, RowFinding
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix, MatrixProvider
from gate.model.outcome import Outcome, Results
from gate.model.shape import Shape, Source, Weight, compute_shape_id

TODAY = date(2026, 6, 1)
RIVALS = {"aiter": 1.02, "triton": 1.1, "pytorch": 2.0}
LAYOUT = {"row_major": True}
# Times at which no row meets the hardware's bound.
TIMES = (3.0, 3.4, 5.1, 9.0, 22.0, 60.0, 140.0, 300.0)


def shape(rows: int, **fields: Any) -> Shape:
    """A ledger row of `rows` x 8192; `fields` replace what it has by default."""
    fixed: dict[str, Any] = {
        "op_type": "rmsnorm",
        "model": "Some Model",
        "stage": "model_config",
        "dtype": "bf16",
        "layout": LAYOUT,
        "args": {"M": rows, "N": 8192},
    } | {key: fields.pop(key) for key in ("op_type", "model", "stage", "dtype", "args") if key in fields}
    return Shape(
        shape_id=compute_shape_id(**fixed),
        kernel_name=fixed["op_type"],
        arch="gfx950",
        gpu="MI350X",
        source=fields.pop("source", Source(kind="aiter_model_shapes")),
        weight=fields.pop("weight", Weight()),
        baselines_available=tuple(RIVALS),
        notes="",
        **fixed,
        **fields,
    )


def ledger(n: int = 8, **fields: Any) -> Ledger:
    """`n` shapes of 1, 2, 3 ... rows."""
    return Ledger(shapes=tuple(shape(1 + index, **fields) for index in range(n)))


def matrix(op_type: str = "rmsnorm", rivals: Iterable[str] = RIVALS, **fields: Any) -> Matrix:
    """The matrix of an op: flydsl against `rivals`, hipblaslt switched off."""
    providers = {name: provider(name) for name in ("flydsl", *rivals)}
    off = provider("hipblaslt", enabled=False, skip_reason="GEMM only")
    return Matrix(kernel=op_type, op_type=op_type, dtype="bf16", providers={**providers, "hipblaslt": off}, **fields)


def provider(name: str, **fields: Any) -> MatrixProvider:
    """One provider of a matrix."""
    return MatrixProvider(**{"enabled": True, "entrypoint": f"pkg.{name}:op", "provider": name, **fields})


def blocks(time_us: float, rng: random.Random, *, noise: float = 0.002, k: int = 8) -> tuple[tuple[float, ...], ...]:
    """`k` blocks of two visits around `time_us`; half of the noise is the block's, half the visit's."""
    share = noise / 2**0.5
    made = []
    for _ in range(k):
        block = rng.gauss(0, share)
        made.append(tuple(time_us * (1 + block + rng.gauss(0, share)) for _ in range(2)))
    return tuple(made)


def outcome(one: Shape, name: str, time_us: float | None, **fields: Any) -> Outcome:
    """An ok row of one provider; `fields` replace what it has by default."""
    given: dict[str, Any] = {
        "run_id": "run",
        "shape_id": one.shape_id,
        "provider": name,
        "provider_detail": name,
        "candidate_commit": "c0ffee",
        "gpu": "AMD Instinct MI350X",
        "arch": "gfx950",
        "rocm_version": "7.2.0",
        "driver_version": "6.14.14",
        "torch_version": "2.9.1",
        "triton_version": "3.6.0",
        "correct": True,
        "warmup_iters": 25,
        "repeat_iters": 100,
        "benchmark_status": "ok",
        "median_us": time_us,
        "timing_method": "graph_slope",
        "cache_state": "cold_hbm",
        "session_id": "one",
    }
    return Outcome(**{**given, **fields})


def compiled(ledger: Ledger, **fields: Any) -> Results:
    """A run that took no times: the candidate's machine code alone."""
    given = {"timing_method": "codegen", "cache_state": None, "correct": None, "session_id": None, "isa_sha": "a"}
    return Results(outcomes=tuple(outcome(one, "flydsl", None, **{**given, **fields}) for one in ledger.shapes))


def run(
    of: Ledger,
    *,
    seed: int,
    factors: Mapping[int, float] | None = None,
    every: float = 1.0,
    rivals: Mapping[str, float] = RIVALS,
    noise: float = 0.002,
    k: int | None = 8,
    **fields: Any,
) -> Results:
    """One run: the candidate and its rivals on every shape. `factors` slows single rows, `every` all rows alike."""
    rng = random.Random(seed)
    rows = []
    for index, one in enumerate(of.shapes):
        usual = TIMES[index % len(TIMES)]
        slow = (factors or {}).get(index, 1.0)
        for name, times in {"flydsl": slow, **rivals}.items():
            time = usual * times * every
            if k is None:
                rows.append(outcome(one, name, time * (1 + rng.gauss(0, noise)), **fields))
                continue
            made = blocks(time, rng, noise=noise, k=k)
            median = sorted(visit for block in made for visit in block)[k]
            rows.append(outcome(one, name, median, blocks_us=made, **fields))
    return Results(outcomes=tuple(rows))


def edit(results: Results, index: int, of: Ledger, name: str = "flydsl", **fields: Any) -> Results:
    """The results with fields of one row replaced."""
    wanted = of.shapes[index].shape_id
    return Results(
        outcomes=tuple(
            msgspec.structs.replace(row, **fields) if row.shape_id == wanted and row.provider == name else row
            for row in results.outcomes
        ),
        problems=results.problems,
    )


def drop(results: Results, *, shape_ids: Sequence[str] = (), providers: Sequence[str] = ()) -> Results:
    """The results without the rows that match every given list."""
    return Results(
        outcomes=tuple(
            row
            for row in results.outcomes
            if not ((not shape_ids or row.shape_id in shape_ids) and (not providers or row.provider in providers))
        ),
        problems=results.problems,
    )


def decide(of: Ledger, base: Results, head: Results, **fields: Any) -> Decision:
    """The decision over one rmsnorm ledger."""
    given: dict[str, Any] = {"matrices": {"rmsnorm": matrix()}, "today": TODAY}
    return judge(Inputs(ledger=of, base=base, head=head, **{**given, **fields}))


def row(decision: Decision, index: int) -> RowFinding:
    """The finding of the ledger's row `index`."""
    return decision.rows[index]
