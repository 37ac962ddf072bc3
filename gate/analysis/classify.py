"""Which of the eight categories a row falls into, with the evidence and the likely fix."""

from __future__ import annotations

import msgspec

from gate.model.decision import Classification


class Classified(msgspec.Struct, frozen=True, kw_only=True):
    """The category of a row, the sentence with the numbers behind it, and what would likely help."""

    classification: Classification | None = None
    evidence: str = ""
    likely_fix: str = ""
    profile: bool = False


NOT_CLASSIFIED = Classified()
