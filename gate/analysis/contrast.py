"""What a pair's blocks say before any test: the difference of each block, its process, and the row's A/A variance."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gate.analysis.estimate import Pair
from gate.analysis.student import Floats
from gate.model.outcome import AnyOutcome

# A visit further than this many standard deviations from its row's others was disturbed from outside.
DISTURBED = 4.0
# The median absolute deviation of normal data in standard deviations, inverted.
MAD_TO_SD = 1.4826


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """One row's block differences d = log(head/base), the visits behind each, its process, and the A/A variance.

    `raw` are the differences as measured; in `d` single disturbed visits are tamed.
    """

    d: Floats
    raw: Floats
    visits: int
    process: tuple[int, ...] | None
    aa: float | None
    surplus: bool


def tame(base: Floats, head: Floats) -> Floats:
    """The block differences of log visits (..., blocks, visits), single disturbed visits brought in to the others.

    Visit i of head lies beside visit i of base in time, so that the clock's own steps cancel in their difference; one
    that lies alone is moved to `DISTURBED` robust standard deviations from its row's median (winsorised).
    """
    pairs = head - base
    flat = pairs.reshape(*pairs.shape[:-2], -1)
    middle = np.median(flat, axis=-1)
    reach = DISTURBED * MAD_TO_SD * np.median(np.abs(flat - middle[..., None]), axis=-1)
    low, high = (middle - reach)[..., None, None], (middle + reach)[..., None, None]
    tamed: Floats = np.clip(pairs, low, high).mean(axis=-1)
    return tamed


class VisitSpread(msgspec.Struct, frozen=True, kw_only=True):
    """Variance of each block's mean from the `df` + 1 visits inside it."""

    variance: Floats
    df: int


def contrasts_of(pairs: Sequence[Pair]) -> list[Contrast]:
    """The block differences of every pair; pairs of one layout are taken together."""
    groups: dict[object, list[int]] = {}
    for index, pair in enumerate(pairs):
        layouts = _layout(pair.base.outcome), _layout(pair.head.outcome)
        groups.setdefault(layouts if all(layouts) else ("ragged", index), []).append(index)
    result: list[Contrast | None] = [None] * len(pairs)
    for members in groups.values():
        base, base_aa, was = _log_blocks([pairs[index].base.outcome for index in members])
        head, head_aa, now = _log_blocks([pairs[index].head.outcome for index in members])
        k = min(base.shape[1], head.shape[1])
        raw = head[:, :k] - base[:, :k]
        same = was is not None and now is not None and 1 < was.shape[2] == now.shape[2]
        d = tame(was[:, :k], now[:, :k]) if same and was is not None and now is not None else raw
        aa = _aa(base_aa, head_aa, k)
        for position, index in enumerate(members):
            outcome = pairs[index].head.outcome
            assert outcome is not None
            labels = outcome.block_process
            result[index] = Contrast(
                d=d[position],
                raw=raw[position],
                visits=_visits(outcome),
                process=labels[:k] if labels is not None and len(labels) >= k and len(set(labels[:k])) > 1 else None,
                aa=None if aa is None else float(aa[position]),
                surplus=base.shape[1] != head.shape[1],
            )
    return [contrast for contrast in result if contrast is not None]


def _layout(outcome: AnyOutcome | None) -> tuple[int, int] | None:
    """(blocks, visits a block) if every block has the same number of visits."""
    assert outcome is not None and outcome.blocks_us
    visits = {len(block) for block in outcome.blocks_us}
    return (len(outcome.blocks_us), visits.pop()) if len(visits) == 1 else None


def _visits(outcome: AnyOutcome) -> int:
    """The visits of one block."""
    return max(len(block) for block in outcome.blocks_us or ((),))


def _log_blocks(outcomes: Sequence[AnyOutcome | None]) -> tuple[Floats, VisitSpread | None, Floats | None]:
    """Mean log time of each block, the variance of that mean from the visits inside it (none with one visit), and the
    log visits themselves where every block has as many."""
    blocks = [outcome.blocks_us for outcome in outcomes if outcome is not None and outcome.blocks_us]
    if len(blocks) == 1 and len({len(block) for block in blocks[0]}) > 1:
        return np.array([[float(np.mean(np.log(block))) for block in blocks[0]]]), None, None
    logs = np.log(np.array(blocks, dtype=np.float64))
    visits = logs.shape[2]
    spread = VisitSpread(variance=logs.var(axis=2, ddof=1) / visits, df=visits - 1) if visits > 1 else None
    return logs.mean(axis=2), spread, logs


def _aa(base: VisitSpread | None, head: VisitSpread | None, k: int) -> Floats | None:
    """The A/A variance of one block of each row: the median over its blocks, which one hiccup does not move."""
    if base is None or head is None:
        return None
    df = base.df + head.df
    usual = (1 - 2 / (9 * df)) ** 3  # Wilson-Hilferty: the median of chi-square over its degrees of freedom
    both: Floats = np.median(base.variance[:, :k] + head.variance[:, :k], axis=1) / usual
    return both
