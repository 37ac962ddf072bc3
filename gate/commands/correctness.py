"""`gate correctness`: checks every provider's graph output against the fp32 reference, without taking times."""

from __future__ import annotations

from typing import Any

import click

from gate.commands.replay import run
from gate.commands.replay_options import input_options
from gate.replay.timer import GRAPH_BUDGET_US


@click.command(short_help="Check the outputs of head, base and the baselines, without timing.")
@input_options
def command(**options: Any) -> int:
    """Write OUT/head/<op>/correctness_results.jsonl: integrity checks 1 to 3 of every (shape, provider)."""
    return run(options, method="graph_slope", looks=(1,), budget_us=GRAPH_BUDGET_US / 20, timing=False)
