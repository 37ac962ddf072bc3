"""Runs the coordinator over workers that fail at random, many of them at once, and checks what it makes of them.

    python -m tests.bench.replay_chaos [--runs 500] [--seed 1]

The workers are objects in this process that answer as real ones do, so that a run takes a fraction of a second. Every
arm must end as its own faults say and no other, a measurement must have its GPU to itself, each shape must be written
down once, and nothing may stay behind: no worker, no lane, no token that is held.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from gate.model.problem import Problem, UnusableInput
from gate.model.text import counted
from gate.replay import crew
from gate.replay.arms import ArmSpec
from gate.replay.blocks import BASE, CONTROL, HEAD, Arm
from gate.replay.job import Job, Settings, Target, spread
from gate.replay.machine import Machine, Session
from gate.replay.op import Case
from gate.replay.runner import measure
from tests.replay.paper import Paper, World

ARMS = (Arm(HEAD, "flydsl"), Arm(BASE, "flydsl"), Arm(CONTROL, "triton"), Arm(CONTROL, "aiter"))
# How an arm ends whose worker or kernel has the fault at some command; the others leave no trace but notes.
ENDS = {"crash": "failed", "hang": "failed", "fatal": "failed", "fail": "failed", "oom": "oom", "wrong": "incorrect"}
PASSING = ("kill", "idle", "oom beside", "oom beside many", "crowded", "no room", "overwritten", "other inputs")
STEPS = ("open", "pilot", "build", "capture", "check", "profile", "visit", "finish", "recheck")
JUDGED = ("capture", "check", "profile", "finish", "recheck")
Reply = dict[str, Any]


def jobs_of(shapes: int) -> list[Job]:
    cases = [
        Case(shape_id=f"s{n}", op_type=("gemm", "softmax", "rope")[n % 3], dtype="bf16", args={}, layout={})
        for n in range(shapes)
    ]
    return [Job(case=case, targets=tuple(Target(arm=arm, entrypoint="x:y") for arm in ARMS)) for case in cases]


def draw(rng: random.Random, shapes: int) -> dict[tuple[str, str, str], str]:
    """Faults by shape, arm and command: one that ends the arm, some that pass, in some shapes all at one command."""
    faults: dict[tuple[str, str, str], str] = {}
    for shape in range(shapes):
        share, steps = rng.choice([0.0, 0.4, 0.9]), rng.choice([STEPS, STEPS, (rng.choice(STEPS),)])
        for arm in ARMS:
            if rng.random() < share / 2:
                end = rng.choice(list(ENDS))
                faults[f"s{shape}", str(arm), rng.choice(JUDGED if end == "wrong" else steps)] = end
            for kind in rng.sample(PASSING, 2):
                if rng.random() < share / 2:
                    faults.setdefault((f"s{shape}", str(arm), rng.choice(steps)), kind)
    return faults


@dataclass(slots=True, kw_only=True)
class Trial:
    """One run and, if it breaks off, its resumptions until all is measured."""

    rng: random.Random
    shapes: int
    lanes: int
    gpus: int
    processes: int
    timing: bool
    world: World
    full_after: int | None = None
    breaks: int = 0
    most_breaks: int = 60
    hurry: float = 0.02

    @classmethod
    def drawn(cls, seed: int) -> Trial:
        rng = random.Random(seed)
        shapes = rng.randrange(1, 8)
        world = World(draw(rng, shapes), drift_after=rng.choice([None, None, rng.randrange(1, 20)]))
        world.room = rng.choice([None, rng.randrange(len({arm.side for arm in ARMS}), 20)])
        world.host = rng.random() < 0.3
        return cls(
            rng=rng,
            shapes=shapes,
            lanes=rng.choice([1, 2, 4, 8]),
            gpus=rng.choice([1, 1, 2]),
            processes=rng.choice([0, 0, 2, 3]),
            timing=rng.random() < 0.8,
            world=world,
            full_after=rng.choice([None, None, rng.randrange(shapes)]),
        )

    def run(self) -> list[str]:
        """What is wrong with what came out."""
        paper, jobs, expected = Paper(self.full_after), jobs_of(self.shapes), dict(self.world.faults)
        if self.processes:
            jobs = spread(jobs, first=0, sizes=[2] * self.processes, process=0)
        threads, files = threading.active_count(), open_files()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(crew, "Link", self.world.launch):
            while waiting := [job for job in jobs if key(job) not in {key(record) for record in paper.records}]:
                self._once(waiting, paper, Path(folder))
                if self.breaks > self.most_breaks:
                    return ["it never ends"]
        if threading.active_count() > threads or open_files() > files:
            self.world.wrong.append("threads or open files are left")
        return [*self.world.wrong, *self._judged(paper.records, jobs, expected)]

    def _once(self, waiting: list[Job], paper: Paper, folder: Path) -> None:
        arms = dict.fromkeys((HEAD, BASE, CONTROL), ArmSpec(python="python"))
        settings = Settings(session_id="s", seed=7, secret=1, arms=arms, folder=folder, device="sim:", looks=(2, 3))
        settings = replace(settings, lanes=self.lanes, pinned=self.processes > 0, timing=self.timing)
        machines = [Machine(gpu=str(number)) for number in range(self.gpus)]
        gpus = [machine.gpu for machine in machines]
        journal: Any = paper
        began = time.monotonic()
        try:
            session = measure(
                waiting,
                settings=settings,
                gpus=gpus,
                journal=journal,
                step=self._step,
                machines=machines,
            )
        except UnusableInput:
            session = Session(machines=machines, stopped="a fault")
        if session.stopped is not None:
            self.breaks += 1
            self.world.drift_after, self.world.canaries = None, 0
        elif {key(job) for job in waiting} - {key(record) for record in paper.records}:
            self.world.wrong.append("it ended well, and not all was measured")
            self.breaks = self.most_breaks + 1
        if time.monotonic() - began > 20:
            self.world.wrong.append("it took too long")
        for token in (machine.token for machine in machines):
            if token._alone or token._sharing or token._waiting:
                self.world.wrong.append("a token is held")
        if any(worker.alive for worker in self.world.workers):
            self.world.wrong.append("a worker is left")

    def _step(self, item: str) -> None:
        """Now and then the time is over."""
        if self.rng.random() < self.hurry:
            raise UnusableInput(Problem(what=f"no time left after {item}", file="", fix=""))

    def _judged(self, records: list[Reply], jobs: list[Job], faults: dict[tuple[str, str, str], str]) -> list[str]:
        wrong = []
        if Counter(map(key, records)) != Counter(map(key, jobs)):
            wrong.append(f"written: {Counter(map(key, records))}")
        for record in records:
            for name, arm in record["arms"].items():
                ends = {(do, kind) for (shape, who, do), kind in faults.items()
                        if (shape, who) == (record["shape_id"], name) and self._bites(do, kind)}  # fmt: skip
                want = {ENDS.get(kind, "oom") for _, kind in ends} or {"ok"}
                if arm["status"] not in want:
                    wrong.append(f"{record['shape_id']} {name}: {arm['status']} ({arm['reason']}), not {want}")
                if self.lanes > 1 and (arm["plan"] or {}).get("short"):
                    wrong.append(f"{record['shape_id']} {name}: a ring that is not cold for what others took")
                blocks = (2,) if self.processes else (2, 3)
                if arm["status"] == "ok" and self.timing and len(arm["visits"]) not in blocks:
                    wrong.append(f"{record['shape_id']} {name}: {counted(len(arm['visits']), 'block')}")
        return wrong

    def _bites(self, do: str, kind: str) -> bool:
        """Whether a fault ends its arm in this run."""
        return kind in ENDS and (self.timing or do not in ("visit", "finish", "recheck"))


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def key(item: Any) -> tuple[str, int]:
    """What is written down once: a shape in a process."""
    return (item["shape_id"], item["process"]) if isinstance(item, dict) else (item.case.shape_id, item.process)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bad, broken = 0, 0
    for seed in range(options.seed, options.seed + options.runs):
        trial = Trial.drawn(seed)
        wrong = trial.run()
        broken += trial.breaks
        if wrong:
            bad += 1
            print(f"seed {seed}: lanes {trial.lanes}, gpus {trial.gpus}, processes {trial.processes}, "
                  f"timing {trial.timing}: {'; '.join(wrong[:4])}", flush=True)  # fmt: skip
    print(f"{counted(options.runs, 'run')}, {broken} that broke off and were resumed: {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
