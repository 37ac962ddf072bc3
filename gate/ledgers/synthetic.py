"""Makes ledger drafts of an op's boundary probes.

No model uses these shapes; they say so in their stage and never carry a promotion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gate.ledgers.draft import Draft
from gate.ledgers.ops.point import Cell
from gate.ledgers.probes.attention import ATTENTION_PROBES
from gate.ledgers.probes.products import PRODUCT_PROBES
from gate.ledgers.probes.rows import ROW_PROBES
from gate.model.shape import Source

PROBES: Mapping[str, Callable[[], Iterator[Cell]]] = {**ROW_PROBES, **PRODUCT_PROBES, **ATTENTION_PROBES}


def drafts(op: str) -> list[Draft]:
    """The op's probes as drafts. Raises KeyError for an op without any."""
    return [
        Draft.of_cell(cell, op_type=op, model="synthetic", stage="synthetic", source=Source(kind="synthetic"))
        for cell in PROBES[op]()
    ]
