"""Everything that needs a GPU, in order of worth, within a given time: one command for a machine lent for minutes.

    python -m tests.bench.gpu_proofs --out DIR [--seconds 1500] [--parts 'engine*' ...] [--commit SHA] [--list]

Each GPU takes the next part that still fits; parts that need all GPUs come last. Every part's output is in DIR/NAME.txt
as it grows, what it leaves is in DIR/NAME/; a part that runs out of its time is interrupted as by Ctrl-C and keeps what
it has. A table is printed at the end and after each part.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GRACE_S = 10
PROFILED = ("--op", "rmsnorm", "--shape", "sha1:b3968dc22115aafb", "--provider", "triton")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One proof: a command, the seconds it may take, and whether it needs all GPUs; {out} is its folder."""

    name: str
    seconds: int
    command: tuple[str, ...]
    alone: bool = False


@dataclass(slots=True, kw_only=True)
class Queue:
    """The parts still to do; whoever is free takes the first that fits in the time that is left."""

    waiting: list[Part]
    end: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: list[tuple[str, int, float]] = field(default_factory=list)

    def take(self) -> Part | None:
        with self.lock:
            left = self.end - time.monotonic()
            part = next((part for part in self.waiting if part.seconds <= left), None)
            if part is not None:
                self.waiting.remove(part)
            return part

    def finish(self, name: str, code: int, seconds: float) -> None:
        with self.lock:
            self.done.append((name, code, seconds))
            print(f"{name:<28}{'time is up' if code < 0 else code:>12}{seconds:>8.0f} s", flush=True)


def bench(name: str, *arguments: str) -> tuple[str, ...]:
    return ("-m", f"tests.bench.{name}", *arguments)


def gate(verb: str, op: str, *arguments: str) -> tuple[str, ...]:
    chosen = ("--op", op, "--candidate", "triton", "--providers", "pytorch", "--blocks", "4", "--lanes", "3")
    return ("-m", "gate", verb, *chosen, "--out", "{out}", *arguments)


def parts(commit: str) -> list[Part]:
    """All proofs; `commit` is what a baseline is recorded under."""
    compiled = ("--entrypoint", "pytorch=gate.replay.providers.pytorch_compiled:{op}", "--limit", "8")

    def whole(*more: str) -> tuple[str, ...]:
        return bench("full_gate", *more, "--keep", "{out}", *(("--commit", commit) if commit else ()))

    quick = ("--lanes", "5", "--budget-us", "500", "--no-compare")
    two_baselines = ("--providers", "pytorch,pytorch_again")
    return [
        Part(
            name="gate_800",
            seconds=560,
            command=whole("--real", "--shapes", "800", *two_baselines, *quick, "--seconds", "530"),
        ),
        Part(
            name="gate_seeded",
            seconds=420,
            command=whole("--seeded", "20", "--shapes", "120", *quick, "--seconds", "390"),
        ),
        Part(
            name="engine_kills", seconds=420, command=bench("replay_kills", "--gpu", "--kills", "50", "--shapes", "5")
        ),
        Part(
            name="bisect", seconds=240, command=bench("bisect_gpu", "--seeds", "16,18-20,0-15,17", "--seconds", "230")
        ),
        Part(name="engine_seeded", seconds=190, command=bench("timer_seeded")),
        Part(name="engine_aa", seconds=240, command=bench("timer_aa", "--sessions", "10")),
        *(
            Part(name=f"compiled_{op}", seconds=90, command=gate("replay", op, *compiled, "--stages", "model_config"))
            for op in ("rmsnorm", "softmax", "layernorm")
        ),
        Part(name="spills", seconds=70, command=bench("triton_spills")),
        Part(name="profile", seconds=40, command=("-m", "gate", "profile", *PROFILED, "--out", "{out}")),
        Part(name="gate_usual", seconds=270, command=whole("--shapes", "100", "--lanes", "6", "--seconds", "240")),
        # Every frozen shape: correctness, times against PyTorch, what baselines are recorded from.
        Part(
            name="gate_real",
            seconds=590,
            command=whole("--real", "--gpus", "all", *quick, "--seconds", "560"),
            alone=True,
        ),
        Part(name="all_gpus", seconds=110, command=bench("replay_gpus", "--shapes", "24"), alone=True),
    ]


def run(part: Part, out: Path, gpu: str | None) -> tuple[int, float]:
    """The exit code (below 0: its time was up) and the seconds of one part."""
    # {op} is left alone: the gate fills it in.
    command = [
        word.replace("{out}", str(out / part.name)).replace("{seconds}", str(part.seconds - 15))
        for word in part.command
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **({"CUDA_VISIBLE_DEVICES": gpu} if gpu is not None else {})}
    started = time.monotonic()
    with (out / f"{part.name}.txt").open("w") as log:
        log.write(f"$ python {' '.join(command)}\n")
        log.flush()
        child = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        late = False
        for sign, patience in ((signal.SIGINT, part.seconds), (signal.SIGKILL, GRACE_S), (signal.SIGKILL, GRACE_S)):
            try:
                code = child.wait(patience)
                break
            except subprocess.TimeoutExpired:
                late, code = True, -1
                os.killpg(child.pid, sign)
    return (-1 if late else code), time.monotonic() - started


def work(queue: Queue, out: Path, gpu: str | None) -> None:
    while (part := queue.take()) is not None:
        queue.finish(part.name, *run(part, out, gpu))


def everything(chosen: Sequence[Part], *, out: Path, gpus: Sequence[str | None], seconds: float) -> Queue:
    """Runs the parts, those that need all GPUs last and alone; the queue says what was done and what was not begun."""
    out.mkdir(parents=True, exist_ok=True)
    reserved = sum(part.seconds for part in chosen if part.alone)
    shared = Queue(waiting=[part for part in chosen if not part.alone], end=time.monotonic() + seconds - reserved)
    threads = [threading.Thread(target=work, args=(shared, out, gpu)) for gpu in gpus]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.end += reserved
    left, shared.waiting = shared.waiting, [part for part in chosen if part.alone]
    work(shared, out, None)
    shared.waiting += left
    return shared


def main() -> None:
    """Prints a line per part and what was not begun."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1500)
    parser.add_argument("--parts", nargs="*", default=["*"])
    parser.add_argument("--commit", default="", help="what baselines are recorded under; default HEAD of this clone")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    commit = (
        given.commit
        or subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()
    )
    chosen = [part for part in parts(commit) if any(fnmatch.fnmatch(part.name, one) for one in given.parts)]
    if given.list:
        for part in chosen:
            print(f"{part.name:<28}{part.seconds:>6} s  {' '.join(part.command)}")
        return
    from gate.replay.machine import visible_gpus

    done = everything(chosen, out=given.out, gpus=visible_gpus("all"), seconds=given.seconds)
    print("not begun: " + (", ".join(part.name for part in done.waiting) or "nothing"))


if __name__ == "__main__":
    main()
