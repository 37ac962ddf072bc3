"""Several lanes on one GPU: the same rows and the same decision as with one, and an interrupt ends them all."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from gate.replay import link
from gate.replay.arms import ArmSpec
from gate.replay.crew import Crew
from gate.replay.job import Settings
from tests.bench import run_kills
from tests.bench.replay_chaos import open_files
from tests.commands import timed_rig
from tests.factory import make_shape
from tests.replay import rig

# At the default budget some of these are half a launch from one more in their graphs: a guess at their time decides.
US = (8.889, 19.05, 5.0, 5.63, 30.8)


def bytes_of_rows(folder: Path, lanes: int) -> list[bytes]:
    ledger = [make_shape(dtype="fp32", args={"M": 4 + number, "N": 64, "us": us}) for number, us in enumerate(US)]
    rig.write_inputs(folder, ledger=ledger)
    code, stderr = rig.run(folder, "--base", f"path={rig.ROOT}", "--lanes", str(lanes))
    assert code == 0, stderr
    session = rig.rows(folder)[0].session_id
    assert session is not None
    files = [folder / "out" / side / "rmsnorm" / "benchmark_results.jsonl" for side in ("head", "base")]
    return [path.read_bytes().replace(session.encode(), b"") for path in files]


def test_any_number_of_lanes_gives_the_same_rows(tmp_path: Path) -> None:
    one, four, eight = (bytes_of_rows(tmp_path / str(lanes), lanes) for lanes in (1, 4, 8))
    assert one == four == eight


def test_any_number_of_lanes_gives_the_same_decision(tmp_path: Path) -> None:
    rows = [shape for steady, us in enumerate(US[:2]) for shape in timed_rig.shapes("rmsnorm", 1, us=us, steady=steady)]
    ledgers, texts = timed_rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rows}), []
    for lanes in (1, 4, 8):
        code, stderr = timed_rig.call(run_kills.arguments(ledgers, tmp_path / str(lanes), lanes))
        assert code == 1, stderr
        texts.append((tmp_path / str(lanes) / "decision.json").read_bytes())
    assert texts[0] == texts[1] == texts[2]


def test_an_interrupt_waits_for_no_worker_that_hangs(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(4, breaks=True), candidate="hangs_in_build")
    process = rig.start(tmp_path, "--base", f"path={rig.ROOT}", "--lanes", "4", env={"SIM_MARKS": str(tmp_path)})
    rig.wait_for((tmp_path / "building").exists)
    workers = rig.workers_of(process.pid)
    process.send_signal(signal.SIGINT)
    # Far less than the time limit of the command that hangs, far more than a loaded machine takes.
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in stderr, stderr
    rig.wait_for(lambda: not any(rig.is_worker(pid) for pid in workers))


def test_a_worker_that_outlives_its_kill_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = link.Link(name="w", command=["sleep", "60"], environment={"PATH": os.environ["PATH"]}, log=tmp_path / "log")
    began = time.monotonic()
    with monkeypatch.context() as stubborn:
        stubborn.setattr(link, "END_WAIT_S", 0.1)
        stubborn.setattr(os, "killpg", lambda *_: None)
        with pytest.raises(link.WorkerDied, match="hang: no answer to wake"):
            made.ask({"do": "wake"}, timeout_s=0.1)
    assert time.monotonic() - began < 10
    made.close()


def test_a_worker_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    made: list[link.Link] = []

    def start() -> None:
        command = [sys.executable, str(link.BOOT)]
        made.append(link.Link(name="w", command=command, environment=os.environ, log=tmp_path / "log"))
        assert made[0].ask({"do": "hello", "device": "sim:memory=64"}, timeout_s=60)["status"] == "ok"

    lane = threading.Thread(target=start)
    lane.start()
    lane.join()
    # Linux would have told it of a parent's end by now.
    time.sleep(0.2)
    assert made[0].ask({"do": "drop"}, timeout_s=60)["status"] == "ok"
    made[0].close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_worker_that_ends_while_it_is_idle_is_replaced(tmp_path: Path, number: signal.Signals) -> None:
    arms = {"head": ArmSpec(python=sys.executable)}
    settings = Settings(session_id="s", seed=1, secret=1, arms=arms, folder=tmp_path, device="sim:memory=64")
    crew = Crew(settings, name="c", gpu=None)
    crew.start(["head"])
    first = crew.links["head"]
    os.kill(first.pid, number)
    rig.wait_for(lambda: first.ended)
    crew.start(["head"])
    assert crew.ask("head", {"do": "drop"})["status"] == "ok"
    assert crew.restarts == 1
    crew.close()


def test_what_a_worker_before_it_has_said_is_not_a_workers_last_word(tmp_path: Path) -> None:
    deaths = []
    for script in ("echo Memory access fault by GPU node-1 >&2; exit 3", "kill -9 $$"):
        made = link.Link(name="w", command=["sh", "-c", script], environment=os.environ, log=tmp_path / "log")
        with pytest.raises(link.WorkerDied) as caught:
            made.ask({"do": "wake"}, timeout_s=60)
        made.close()
        deaths.append("Memory access fault" in caught.value.reason)
    assert deaths == [True, False]


def test_what_cannot_be_started_is_told_where_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-python"):
        link.Link(name="w", command=["no-such-python"], environment={}, log=tmp_path / "log")
    before = open_files()
    with pytest.raises(FileNotFoundError) as told:
        link.Link(name="w", command=["no-such-python"], environment={}, log=tmp_path / "log")
    # Whoever still knows the error must not keep files.
    assert open_files() == before and told
    link.Link(name="w", command=[sys.executable], environment={}, log=tmp_path / "log").close()
