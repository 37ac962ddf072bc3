"""Publishes many times with random faults and two reporters interleaved at random; counts what must never happen.

`python -m tests.bench.publish_interleave [RUNS] [SEED]` prints the table. Every case is decided by its seed: which
runs report, where the pull request's head stands, which requests fail before or after their effect, and whose request
the fake GitHub answers next.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from gate.commands import publish_texts
from gate.model.decision import Decision
from gate.model.text import counted
from gate.publish.hub import GitHub
from gate.publish.patience import GaveUp, Patience
from gate.publish.settle import Desk, settle
from gate.publish.target import resolve
from tests.publish.fake import BOT, REPO, FakeGitHub, Fault, Token, running
from tests.render.examples import BLOCKED, NO_VERDICT, decision, row, slower

PULL, OLD, NEW = 7, "a" * 40, "c" * 40
KINDS = ("500", "502", "503", "429", "403", "drop", "garbage")
VERDICTS: dict[str, Decision] = {
    "promote": decision([row(0, verdict="improved", ratio=0.8)]),
    "unchanged": decision([row(0)]),
    "block": decision([slower(0, 1.3)], **BLOCKED),
    "no_verdict": decision([], **NO_VERDICT),
}
STATES = {"promote": "success", "unchanged": "success", "block": "failure", "no_verdict": "error"}


@dataclass
class Turnstile:
    """Lets one request through at a time: when every live reporter waits, `choice` says who is next."""

    choice: random.Random
    live: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    chosen: str | None = None
    turn: threading.Condition = field(default_factory=threading.Condition)

    def enter(self, name: str) -> None:
        with self.turn:
            if name not in self.live:
                return
            self.waiting.add(name)
            self._choose()
            self.turn.wait_for(lambda: self.chosen == name, timeout=30)
            self.chosen = None
            self.waiting.discard(name)

    def leave(self, name: str) -> None:
        with self.turn:
            self.live.discard(name)
            self._choose()

    def _choose(self) -> None:
        if self.live and self.waiting == self.live and self.chosen is None:
            self.chosen = self.choice.choice(sorted(self.waiting))
            self.turn.notify_all()


def report(fake: FakeGitHub, token: str, run_id: int, attempt: int, verdict: str) -> str:
    """One reporter: what `gate publish` does for one run; says how it ended."""
    hub = GitHub(REPO, token=token, base_url=fake.base, patience=Patience(attempts=8, sleep=lambda seconds: None))
    try:
        target = resolve(hub.run(run_id, attempt), hub)
        made = VERDICTS[verdict]
        quiet = publish_texts.is_quiet(made)
        message = publish_texts.message(made, target, name="main", context="flydsl-gate", quiet=quiet)
        brief = publish_texts.briefly("main", "flydsl-gate")
        settle(Desk(hub=hub, target=target, name="main", brief=brief, patience=hub.patience), message)
    except GaveUp:
        return "gave up"
    return "done"


def one(fake: FakeGitHub, seed: int, rate: float) -> Counter[str]:
    """One case: two runs that report at once, and what GitHub shows when both have ended."""
    dice = random.Random(seed)
    fake.pulls.clear(), fake.comments.clear(), fake.statuses.clear(), fake.runs.clear(), fake.log.clear()
    same_head = dice.random() < 0.6
    fake.add_pull(PULL, OLD if same_head else NEW)
    keys = ((11, 1), (11, 2)) if dice.random() < 0.4 and same_head else ((11, 1), (12, 1))
    heads = (OLD, OLD if same_head else NEW)
    verdicts = [dice.choice(sorted(VERDICTS)) for _ in keys]
    for (number, attempt), head in zip(keys, heads, strict=True):
        fake.add_run(number, head, attempt=attempt)
    if dice.random() < 0.5:
        marker = f"<!-- flydsl-gate:main v1 run=10.1 head={OLD} verdict={dice.choice(['promote', 'block'])} -->\nold"
        for _ in range(dice.choice((1, 1, 2))):
            fake.add_comment(PULL, marker, login=BOT, kind="Bot")
    late_push = not same_head and dice.random() < 0.5
    if late_push:
        fake.pulls[PULL]["head"]["sha"] = OLD
    faults = random.Random(seed + 1)

    def plan(method: str, path: str) -> Fault | None:
        if late_push and faults.random() < 0.15:
            fake.pulls[PULL]["head"]["sha"] = NEW
        if faults.random() >= rate:
            return None
        return Fault(faults.choice(KINDS), faults.choice(("before", "after")))

    gate = Turnstile(random.Random(seed + 2), live={"r0", "r1"})
    fake.plan, fake.turnstile = plan, gate.enter
    ended: dict[str, str] = {}

    def work(name: str, key: tuple[int, int], verdict: str) -> None:
        try:
            ended[name] = report(fake, name, *key, verdict)
        finally:
            gate.leave(name)

    # The newer run was pushed before it reports: its reporter starts on the newer head.
    threads = [
        threading.Thread(target=work, args=(f"r{index}", key, verdict))
        for index, (key, verdict) in enumerate(zip(keys, verdicts, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fake.turnstile = lambda token: None
    fake.pulls[PULL]["head"]["sha"] = heads[1]
    again = [index for index in range(2) if ended.get(f"r{index}") != "done"]
    if late_push and 1 not in again:
        again.append(1)  # Its head was not the pull request's when it reported: the next event reports it again.
    for index in again:
        fake.plan = lambda method, path: None
        assert report(fake, f"r{index}", *keys[index], verdicts[index]) == "done"
    return verify(fake, keys, heads, verdicts) + Counter(
        {"requests": len(fake.log), "faults": sum(1 for entry in fake.log if entry[2] == -1), "run again": len(again)}
    )


def verify(
    fake: FakeGitHub, keys: tuple[tuple[int, int], ...], heads: tuple[str, str], verdicts: list[str]
) -> Counter[str]:
    found: Counter[str] = Counter()
    shown = fake.ours(PULL)
    found["duplicated comments"] += max(0, len(shown) - 1)
    found["older run shown last"] += sum(f"run={keys[1][0]}.{keys[1][1]} " not in body for body in shown)
    found["no comment where one is due"] += not shown and verdicts[1] != "unchanged"
    wanted = [STATES[verdicts[1]] if heads[0] == heads[1] else STATES[verdicts[0]], STATES[verdicts[1]]]
    for head, state in zip(heads, wanted, strict=True):
        status = fake.status(head)
        found["wrong final status"] += status is None or status["state"] != state
    found["short form shown"] += sum("form=brief" in body for body in shown)
    found["not GitHub's form"] += len(fake.violations)
    return found


def main(runs: int, seed: int) -> Counter[str]:
    total: Counter[str] = Counter()
    start = time.monotonic()
    with running() as fake:
        fake.tokens |= {"r0": Token(), "r1": Token()}
        for case in range(runs // 2):
            total += one(fake, seed + 1000 * case, rate=(0.0, 0.05, 0.15, 0.3)[case % 4])
    told = f"{counted(runs, 'publish run')} in {counted(runs // 2, 'pair')}"
    print(f"{told}, seed {seed}, {time.monotonic() - start:.1f} s")
    for name in ("requests", "faults", "run again", "short form shown", "duplicated comments", "wrong final status",
                 "older run shown last", "no comment where one is due", "not GitHub's form"):  # fmt: skip
        print(f"{name:30} {total[name]:7,}")
    return total


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
