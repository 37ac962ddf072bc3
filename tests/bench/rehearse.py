"""Frozen ledgers of two simulated ops, with which the timed gate can be tried where there is no GPU.

python -m tests.bench.rehearse [FOLDER]      (default: rehearsal; docs/without-a-gpu.md says what to do with them)
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.run_kills import prepare


def main(folder: Path) -> None:
    """Writes the ledgers: three shapes an op; SIM_FACTOR slows the candidate on all but the second."""
    print(f"frozen ledgers of rmsnorm and softmax, three shapes each: {prepare(folder)}")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["rehearsal"]))
