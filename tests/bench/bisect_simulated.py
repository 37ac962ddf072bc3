"""How often a bisection is right on simulated histories, and what it costs: a table.

    python -m tests.bench.bisect_simulated [--histories 400]

16 commits, 5% of which cannot be built. The noise is that of the slope timer on an H200 and that of published
one-launch results of an MI350X (see tests.bisect.histories); a pair is two fresh processes with four blocks.
"""

from __future__ import annotations

import argparse
from collections import Counter

from gate.bisect.answer import Design
from gate.bisect.ask import drive
from gate.bisect.search import search
from tests.bisect.histories import world


def line(noise: str, effect: float, histories: int) -> str:
    """One row of the table."""
    outcomes: Counter[str] = Counter()
    pairs = []
    for seed in range(histories):
        history = world(seed, noise=noise, effect=effect, skipped=0.05)
        found = drive(search(history.count, Design()), history.answer)
        pairs.append(found.process_pairs)
        blamed = "right" if history.bad_at in found.suspects else "wrong"
        outcomes[blamed if found.word == "found" else found.word] += 1
    pairs.sort()
    cells = [f"{outcomes[name]}" for name in ("right", "wrong", "no_regression", "undecided")]
    return f"| {noise} | {effect:.0%} | {' | '.join(cells)} | {pairs[len(pairs) // 2]} | {pairs[-len(pairs) // 20]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=400)
    histories = parser.parse_args().histories
    print("| noise | slower by | right | wrong | no regression | undecided | pairs, median | pairs, 95% |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for noise in ("h200", "mi350x"):
        for effect in (0.08, 0.05, 0.03, 0.0):
            print(line(noise, effect, histories), flush=True)


if __name__ == "__main__":
    main()
