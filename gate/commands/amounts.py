"""Knows what a number on the command line may be: within its bounds, and finite."""

from __future__ import annotations

import math
from typing import Any

import click


class Amount(click.FloatRange):
    """As click's range, which lets `nan` through, as it is neither below nor above any bound; `inf` is refused too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. Raises click.BadParameter for what is none, not finite, or out of bounds."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number", param, ctx)
        return found


# Device work of one graph, in microseconds: from one short kernel to a second.
BUDGET_US = Amount(1.0, 1e6)
# A factor on time limits.
WATCHDOG = Amount(0.0, min_open=True)
