"""What a waiver is: a reviewed permission for one row to be slower, up to a ceiling and until a date."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

import msgspec

from gate.model.matrix import ProviderName

WaiverState = Literal["used", "unused", "expired", "exceeded"]


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[waiver]]` of waivers.toml.

    `max_ratio` is the largest head time over base time that is accepted; `expires` is the last day it holds.
    """

    shape_id: str
    provider: ProviderName
    max_ratio: Annotated[float, msgspec.Meta(gt=1.0, le=100.0)]
    expires: date
    reason: Annotated[str, msgspec.Meta(pattern=r"\S")]
    issue: Annotated[str, msgspec.Meta(pattern=r"\S")]


class WaiverFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole waivers.toml."""

    waiver: tuple[Waiver, ...] = ()


class WaiverUse(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one waiver in one judgement."""

    waiver: Waiver
    state: WaiverState
    ratio: float | None = None
