"""A bench worker whose kernels have a dial: turns it, captures again, and reads the time.

python tests/bench/dialled_worker.py      (started by full_gate.py, speaks JSON lines)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gate.replay import worker
from tests.bench import dialled, replay_worker

VISITS = 2


def dial(self: worker.Worker, message: dict[str, Any]) -> dict[str, Any]:
    """The time per launch with so many rounds, the less of a few visits."""
    dialled.DIAL.rounds = int(message["rounds"])
    cell = self.cells[message["arm"]]
    for graph in cell.graphs:
        graph.close()
    cell.capture()
    return {"t_us": min(cell.visit("graph_slope").t_us for _ in range(VISITS))}


worker.COMMANDS["dial"] = dial


if __name__ == "__main__":
    sys.exit(replay_worker.worker.main())
