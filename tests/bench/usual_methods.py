"""The usual ways to time a kernel on shapes of a gate run: head and base each in a process, one shape after another."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gate.model.shape import Shape
from gate.model.text import counted
from gate.replay.link import WorkerDied
from tests.bench import replay_rig
from tests.bench.replay_rig import planned, together

DIALLED = "tests.bench.dialled:Adapter"
REAL = "gate.replay.providers.triton:{op}"
USUAL_LIMIT = 1.05
METHODS = ("one_launch", "do_bench")
SIDES = ("head", "base")
RING_US = 200.0


class Side(replay_rig.Side):
    """A bench worker with a dial and one shape open."""

    script = "dialled_worker.py"
    limit_s = 60.0

    def opened(self, shape: Shape, entrypoint: str) -> dict[str, Any]:
        """Compiled, its tensors made and launched once: what the pilot tells of it."""
        self.ask("drop")
        case = {name: getattr(shape, name) for name in ("shape_id", "op_type", "dtype")}
        case |= {"args": dict(shape.args), "layout": dict(shape.layout)}
        self.ask("open", case=case, seed=12345, entrypoint=entrypoint.format(op=shape.op_type))
        return self.ask("pilot")

    def captured(self, pilot: dict[str, Any], *, budget_us: float) -> None:
        """Its ring and graphs made."""
        self.ready(planned(self.chip, [pilot], budget_us, None))


@dataclass(slots=True, kw_only=True)
class Compared:
    """What came out: ratios of head over base as (seeded, ratio), GPU and wall seconds of both arms together.

    `opening_s` is what every method needs before its first launch, `graphs_s` what graphs need besides.
    """

    count: int = 0
    ratios: dict[str, list[tuple[bool, float]]] = field(default_factory=lambda: {name: [] for name in METHODS})
    gpu_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(METHODS, 0.0))
    wall_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(METHODS, 0.0))
    opening_s: float = 0.0
    graphs_s: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)


def in_turn(shapes: Sequence[Shape], dials: Mapping[str, int], rng: random.Random) -> list[Shape]:
    """One seeded shape and one other in turn, so that a run that is cut short has both kinds; then what is left."""
    seeded = [shape for shape in shapes if shape.shape_id in dials]
    others = [shape for shape in shapes if shape.shape_id not in dials]
    rng.shuffle(others)
    pairs = [shape for pair in zip(seeded, others, strict=False) for shape in pair]
    return [*pairs, *others[len(seeded) :], *seeded[len(others) :]]


def compare(
    sides: Mapping[str, Side], order: Sequence[Shape], dials: Mapping[str, int], *, entrypoint: str, until: float
) -> Compared:
    """Times shape after shape until `until` (of time.monotonic), where the shape in work is finished."""
    found = Compared()
    for shape in order:
        if time.monotonic() > until:
            break
        try:
            _one(sides, shape, dials.get(shape.shape_id, 0), entrypoint=entrypoint, found=found, seeded=bool(dials))
        except RuntimeError as error:
            found.refused[str(error)[:160]] += 1
        except WorkerDied as death:
            found.refused[f"{shape.op_type}, and none after it: {death.reason}"[:160]] += 1
            break
    return found


def _one(
    sides: Mapping[str, Side], shape: Shape, rounds: int, *, entrypoint: str, found: Compared, seeded: bool
) -> None:
    """One shape by every method; counted only where all of it went well. Raises RuntimeError."""
    times: dict[str, dict[str, float]] = {name: {} for name in METHODS}
    wall_s, gpu_s = dict.fromkeys(METHODS, 0.0), dict.fromkeys(METHODS, 0.0)
    opening_s = graphs_s = 0.0
    for name, side in sides.items():
        began = time.perf_counter()
        pilot = side.opened(shape, entrypoint)
        opened = time.perf_counter()
        side.captured(pilot, budget_us=RING_US)
        opening_s, graphs_s = opening_s + opened - began, graphs_s + time.perf_counter() - opened
        if seeded:
            side.ask("dial", rounds=rounds if name == "head" else 0)
        for method in METHODS:
            started = time.perf_counter()
            reply = side.ask(method)
            times[method][name] = reply["t_us"]
            wall_s[method] += time.perf_counter() - started
            gpu_s[method] += reply["gpu_ms"] / 1e3
    found.count += 1
    found.opening_s += opening_s
    found.graphs_s += graphs_s
    for method in METHODS:
        found.gpu_s[method] += gpu_s[method]
        found.wall_s[method] += wall_s[method]
        found.ratios[method].append((rounds > 0, times[method]["head"] / times[method]["base"]))


HEADS = (
    ("method", 12), ("GPU s/100 shapes", 17), ("wall s/shape", 13), ("with opening", 13), ("false red", 10),
    ("seeded found", 13), ("|ratio-1| median", 17), ("worst", 8),
)  # fmt: skip


def tell(found: Compared) -> None:
    """The table: costs of both arms together, and how often the usual rule is right."""
    for why, times_seen in found.refused.most_common(3):
        print(f"  {counted(times_seen, 'shape')} not compared: {why}")
    each = max(found.count, 1)
    shapes = counted(found.count, "shape")
    print(f"\nthe usual methods, two arms, {shapes} of the same run, red when over {USUAL_LIMIT:g};")
    print(
        f"wall: one shape after another, both arms; opening (compile, tensors, first launches) takes "
        f"{found.opening_s / each:.2f} s a shape, graphs {found.graphs_s / each:.2f} s more"
    )
    print(" ".join(f"{head:>{width}}" for head, width in HEADS))
    for method in METHODS:
        ratios = found.ratios[method]
        same = [abs(ratio - 1) for seeded, ratio in ratios if not seeded]
        red = [seeded for seeded, ratio in ratios if ratio > USUAL_LIMIT]
        opening = found.opening_s + (found.graphs_s if method == "one_launch" else 0.0)
        cells = [
            method,
            f"{found.gpu_s[method] * 100 / each:.1f}",
            f"{found.wall_s[method] / each:.2f}",
            f"{(found.wall_s[method] + opening) / each:.2f}",
            f"{red.count(False)}/{len(same)}",
            f"{red.count(True)}/{len(ratios) - len(same)}",
            f"{sorted(same)[len(same) // 2] if same else float('nan'):.2%}",
            f"{max(same, default=float('nan')):.1%}",
        ]
        print(" ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, HEADS, strict=True)))


def run(shapes: Sequence[Shape], dials: Mapping[str, int], *, real: bool, seconds: float, rng: random.Random) -> None:
    """Starts both sides, compares for so many seconds from then on, and prints."""
    sides = {name: Side(f"usual-{name}") for name in SIDES}
    together(list(sides.values()), lambda side: side.hello())
    entrypoint, until = REAL if real else DIALLED, time.monotonic() + seconds
    tell(compare(sides, in_turn(shapes, dials, rng), dials, entrypoint=entrypoint, until=until))
    for side in sides.values():
        side.link.close()
