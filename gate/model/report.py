"""What the reports tell beyond the decision: the run rolled up by op, provider and weight, and the points of plots."""

from __future__ import annotations

import msgspec

from gate.model.decision import Geomean


class Standoff(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate against one baseline on one op, over the rows that both have a comparable time for.

    `geomean.vs_best` is here the geomean of that baseline's time over the candidate's. `ahead`, `level` and `behind`
    count the paired rows at 1.00x and above, from 0.95x, and below. `reference`: the baseline is the op's reference
    implementation; `unmatched` rows time more work than the candidate's (a layout conversion).
    """

    op_type: str
    baseline: str
    rows: int
    geomean: Geomean
    ahead: int
    level: int
    behind: int
    reference: bool = False
    unmatched: int = 0


class OpTally(msgspec.Struct, frozen=True, kw_only=True):
    """One op against the best baseline: how its rows spread, what they are classified as, how many fail.

    `rivalled` are the geomeans over the rows whose best baseline is more than the reference implementation.
    """

    op_type: str
    rows: int
    ahead: int
    level: int
    behind: int
    rivalled: Geomean
    classes: dict[str, int]
    statuses: dict[str, int]


class RowPull(msgspec.Struct, frozen=True, kw_only=True):
    """What one row does to the weighted geomean: its share of the weight and the factor it contributes."""

    shape_id: str
    share: float
    speedup: float
    factor: float


class OpWeight(msgspec.Struct, frozen=True, kw_only=True):
    """The weights of one op: `covered` is the share of all weight that lies on rows with a standing.

    `geomean` is over those weighted rows only; `pulls` are the rows that move it most, first the strongest.
    """

    op_type: str
    rows: int
    weighted_rows: int
    standing_rows: int
    covered: float
    geomean: Geomean
    pulls: tuple[RowPull, ...]


class HostCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a call costs beside its kernel, per op and provider: medians over the `n` rows that say both, in us.

    `eager_vs_candidate` is the geomean of the candidate's eager time over this provider's (above 1: the provider's
    call returns sooner); null for the candidate itself and where no row pairs.
    """

    op_type: str
    provider: str
    n: int
    kernel_us: float
    eager_us: float
    host_us: float
    eager_vs_candidate: float | None = None


class ShapeCover(msgspec.Struct, frozen=True, kw_only=True):
    """One shape of the grid: the state of each provider, in the order of its op's columns, and its time in us."""

    shape_id: str
    states: tuple[str, ...]
    times_us: tuple[float | None, ...]


class OpCover(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of one op. `off` are providers switched off in the matrix, with the reason, without a column."""

    op_type: str
    candidate: str
    providers: tuple[str, ...]
    off: dict[str, str]
    shapes: tuple[ShapeCover, ...]
    counts: dict[str, dict[str, int]]


class RoofPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One row on the roofline: operations per byte, and achieved operations in 1e12 a second."""

    op_type: str
    flop_per_byte: float
    tflops: float


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """The peaks of the GPU that was measured: 1e12 bytes a second, 1e12 dense 16-bit operations a second."""

    gpu: str
    tb_per_s: float
    tflops_16: float


class NoisePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The spread of one candidate row: p90 over p10 against its time in us."""

    op_type: str
    time_us: float
    spread: float


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the history, a line of a JSONL file: a speedup of a series at a commit, oldest first."""

    commit: str
    series: str
    speedup: float


class Rollup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the reports need beside the decision; `controls` holds head over base of each baseline's rows."""

    standoffs: tuple[Standoff, ...] = ()
    ops: tuple[OpTally, ...] = ()
    weights: tuple[OpWeight, ...] = ()
    host: tuple[HostCost, ...] = ()
    covers: tuple[OpCover, ...] = ()
    roofline: tuple[RoofPoint, ...] = ()
    roof: Roof | None = None
    noise: tuple[NoisePoint, ...] = ()
    controls: dict[str, tuple[float, ...]] = {}
