"""How waivers meet regressions: used, unused, expired, exceeded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from gate.model.waiver import Waiver, WaiverState, WaiverUse

Key = tuple[str, str]
_REASON: dict[WaiverState, str] = {"used": "waived", "expired": "waiver_expired", "exceeded": "waiver_over_ceiling"}


class Waived(msgspec.Struct, frozen=True, kw_only=True):
    """What the waivers say of one regressed row."""

    covered: bool
    reason: str


def apply(
    waivers: Sequence[Waiver], regressed: dict[Key, float | None], *, today: date
) -> tuple[dict[Key, Waived], tuple[WaiverUse, ...]]:
    """What the waivers do to the regressed rows (identity to ratio, None without a time), and each waiver's state."""
    rows: dict[Key, Waived] = {}
    uses: list[WaiverUse] = []
    for waiver in waivers:
        key = (waiver.shape_id, waiver.provider)
        hit, ratio = key in regressed, regressed.get(key)
        expired = today > waiver.expires
        if not hit:
            uses.append(WaiverUse(waiver=waiver, state="expired" if expired else "unused"))
            continue
        state: WaiverState = "expired" if expired else "exceeded" if _over(ratio, waiver) else "used"
        uses.append(WaiverUse(waiver=waiver, state=state, ratio=ratio))
        if key not in rows or state == "used":
            rows[key] = Waived(covered=state == "used", reason=_REASON[state])
    return rows, tuple(uses)


def _over(ratio: float | None, waiver: Waiver) -> bool:
    """A row without a time (a code finding) is over every ratio."""
    return ratio is None or ratio > waiver.max_ratio
