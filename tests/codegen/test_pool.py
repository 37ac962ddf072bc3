"""The pool of compiling processes, with stand-ins that do what a compiler may do: each costs its own case only."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from gate.codegen import pool
from gate.codegen.pool import Pool, Reply

WORKER = """
import json, os, signal, sys, time

def say(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

say('{"status": "ok"}')
for line in sys.stdin:
    case = json.loads(line)
    if case == "silent":
        time.sleep(60)
    elif case == "garbage":
        say("{no json")
    elif case == "nothing":
        say("[]")
    elif case == "leaves":
        print("LLVM ERROR: no such register", file=sys.stderr, flush=True)
        os._exit(3)
    elif case == "aborts":
        os.abort()
    elif case == "real-time signal":
        os.kill(os.getpid(), signal.SIGRTMIN + 3)
    elif case == "deaf":
        os.close(1)
        time.sleep(60)
    else:
        say(json.dumps({"status": "ok", "isa": case}))
"""


def answers(*cases: str, jobs: int = 1, timeout_s: float = 20.0) -> dict[str, Reply]:
    command = [sys.executable, "-c", WORKER]
    found = Pool(command, dict(os.environ), timeout_s).run(cases, jobs)
    return {cases[index]: reply for index, reply in found}


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("garbage", "its answer cannot be read"),
        ("nothing", "its answer cannot be read: no status in b'[]'"),
        ("leaves", "exit code 3: LLVM ERROR: no such register"),
        ("aborts", "SIGABRT"),
        ("real-time signal", f"signal {signal.SIGRTMIN + 3}"),
        ("deaf", "it closed its output and went on"),
    ],
)
def test_what_a_compiler_does_costs_its_own_case_only(case: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "END_SECONDS", 0.2)
    found = answers("first", case, "last")
    assert found["first"]["isa"] == "first" and found["last"]["isa"] == "last"
    assert found[case]["status"] == "crashed" and words in found[case]["error"]


def test_a_case_without_an_answer_ends_with_its_time() -> None:
    found = answers("silent", "last", timeout_s=0.5)
    assert found["silent"]["status"] == "timeout" and found["last"]["status"] == "ok"


def test_every_case_is_answered_once_by_however_many_workers() -> None:
    cases = [f"case {number}" for number in range(20)]
    for jobs in (1, 3, 50):
        assert {case: reply["isa"] for case, reply in answers(*cases, jobs=jobs).items()} == {
            case: case for case in cases
        }
