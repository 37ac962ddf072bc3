"""Head and base in one ring: where memory lies divides them no longer, and what one breaks is not laid on the other."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gate.replay import scratch, shared_block
from gate.replay.arms import ArmSpec
from gate.replay.crew import Crew
from gate.replay.device import DeviceError, NoRoom
from gate.replay.device_sim import SimDevice
from gate.replay.driver import Driver
from gate.replay.job import Settings
from gate.replay.link import Link, WorkerDied
from gate.replay.shared_torch import LEAST_ROUNDS, RATE_ROUNDS, SharedTorchMemory
from gate.replay.sharing import SharedMemory
from gate.replay.sim_options import SimOptions
from tests.bench.replay_chaos import open_files
from tests.replay import rig

BASE = ("--base", f"path={rig.ROOT}")
SLOW_BASE = ("--base", f"path={rig.ROOT},env=SIM_FACTOR:1.25")
BOOT = Path(shared_block.__file__).with_name("boot.py")


def pair(folder: Path) -> tuple[Any, Any]:
    head, base = (rig.by_provider(rig.rows(folder, side), "flydsl")[0] for side in ("head", "base"))
    return head, base


@pytest.mark.parametrize("candidate", ["placed", "with_scratch"])
def test_where_memory_lies_does_not_divide_head_and_base(tmp_path: Path, candidate: str) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1), candidate=candidate)
    assert rig.run(tmp_path, *SLOW_BASE)[0] == 0
    head, base = pair(tmp_path)
    assert head.median_us / base.median_us == pytest.approx(1.0, abs=0.005)
    shared = {item["arm"]: item["shared"] for item in rig.samples(tmp_path)}
    assert shared == {"head/flydsl": True, "base/flydsl": True, "control/triton": False}


def test_without_shared_memory_each_has_its_own_and_the_row_says_so(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1), candidate="placed")
    assert rig.run(tmp_path, *SLOW_BASE, sim=f"{rig.SIM},lends=0")[0] == 0
    head, base = pair(tmp_path)
    assert base.median_us / head.median_us == pytest.approx(1.25, abs=0.005)
    for row in (head, base):
        assert "memory of their own: DeviceError: the simulated GPU lends no memory" in str(row.notes)


def test_a_driver_that_dies_of_sharing_costs_no_row(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(2), candidate="placed")
    code, stderr = rig.run(tmp_path, *SLOW_BASE, sim=f"{rig.SIM},lends=-1")
    assert code == 0, stderr
    for side in ("head", "base"):
        found = rig.by_provider(rig.rows(tmp_path, side), "flydsl")
        assert [row.benchmark_status for row in found] == ["ok", "ok"]
        assert all("sharing it cost a worker: the worker was aborted by its runtime" in str(row.notes) for row in found)
    assert rig.manifest(tmp_path)["worker_restarts"] == 1


def test_a_kill_by_chance_ends_no_sharing() -> None:
    memory = SharedMemory(lanes=1)
    for _ in range(3):
        memory.cost_a_worker(WorkerDied("killed", outside=True))
    assert memory.refusal is None
    memory.cost_a_worker(WorkerDied("killed", outside=True))
    assert memory.refusal is not None


def test_a_ring_beyond_the_shared_memory_is_the_arms_own(tmp_path: Path) -> None:
    # Two copies of 6.4 MB; each of four lanes may share 4.8 of 64 MB.
    rig.write_inputs(tmp_path, ledger=rig.shapes(1, N=200_000), candidate="placed", rival=None)
    assert rig.run(tmp_path, *SLOW_BASE, "--lanes", "4")[0] == 0
    head, base = pair(tmp_path)
    assert head.benchmark_status == base.benchmark_status == "ok"
    assert "memory of their own: the shared memory is too small" in str(head.notes)


@pytest.mark.parametrize("side", ["head", "base"])
def test_what_one_arm_writes_over_is_not_laid_on_the_other(tmp_path: Path, side: str) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1), candidate="vandal")
    specs = {name: f"path={rig.ROOT}" + (",env=SIM_VANDAL:1" if name == side else "") for name in ("head", "base")}
    code, stderr = rig.run(tmp_path, "--base", specs["base"], "--head", specs["head"])
    assert code == 0, stderr
    rows = dict(zip(("head", "base"), pair(tmp_path), strict=True))
    honest = rows.pop("base" if side == "head" else "head")
    assert rows[side].benchmark_status == "incorrect" and rows[side].median_us is None
    assert honest.benchmark_status == "ok" and "memory of their own" in str(honest.notes)


def test_the_memory_outlives_the_worker_that_made_it(tmp_path: Path) -> None:
    ledger = [*rig.shapes(1), *rig.shapes(1, breaks=True), *rig.shapes(1, last=1)]
    rig.write_inputs(tmp_path, ledger=ledger, candidate="killed_once", rival=None)
    code, stderr = rig.run(tmp_path, *BASE, env={"SIM_MARKS": str(tmp_path)})
    assert code == 0, stderr
    rows = rig.by_provider(rig.rows(tmp_path), "flydsl")
    assert [row.benchmark_status for row in rows] == ["ok"] * 3
    assert "measured again after the worker was killed" in str(rows[1].notes)
    assert all(item["shared"] for item in rig.samples(tmp_path))


def worker(folder: Path, name: str) -> Link:
    link = Link(name=name, command=[sys.executable, str(BOOT)], environment=os.environ, log=folder / f"{name}.log")
    assert link.ask({"do": "hello", "device": "sim:memory=64"}, timeout_s=60)["status"] == "ok"
    return link


def test_a_worker_that_is_buried_leaves_no_file_open(tmp_path: Path) -> None:
    arms = {"head": ArmSpec(python=sys.executable)}
    crew = Crew(
        Settings(session_id="s", seed=1, secret=1, arms=arms, folder=tmp_path, device="sim:"), name="c", gpu=None
    )
    before = open_files()
    crew.start(["head"])
    link = crew.links["head"]
    crew.bury("head")
    # Whoever still knows the worker, such as an error in flight, must not keep its files.
    assert open_files() == before and link.pid


def test_a_newcomer_gets_the_memory_of_a_dead_worker(tmp_path: Path) -> None:
    memory = SharedMemory(lanes=2)
    first, second = worker(tmp_path, "first"), worker(tmp_path, "second")
    try:
        assert memory.reach(first, lambda message: first.ask(message, timeout_s=60))
        assert memory.size == int(0.3 * 64 * 2**20 / 2) // 4096 * 4096
        first.kill()
        assert memory.reach(second, lambda message: second.ask(message, timeout_s=60))
        assert memory.refusal is None
        with pytest.raises(WorkerDied):
            first.give_file(0)
    finally:
        memory.close()
        first.close()
        second.close()


def test_processes_see_each_others_bytes() -> None:
    one, other = (SimDevice(SimOptions()) for _ in range(2))
    descriptor, size = one.lend(1 << 16)
    other.borrow(descriptor, size)
    os.close(descriptor)
    with one.shared():
        mine = one.stack(2, (3,), "fp32")
    with other.shared():
        theirs = other.stack(2, (3,), "fp32")
    mine[...] = 5.0
    assert theirs.tolist() == [[5.0] * 3] * 2
    own = one.stack(2, (3,), "fp32")
    assert one.is_shared(mine) and not one.is_shared(own)
    with pytest.raises(NoRoom, match="too small"), one.shared():
        one.stack(1, (1 << 15,), "fp32")


def test_scratch_is_one_zeroed_piece_for_all_copies_of_a_ring() -> None:
    device = SimDevice(SimOptions())
    assert scratch.take("parts", 8, "float32") is None
    with scratch.pieces(device.scratch):
        first, again = scratch.take("parts", 8, "float32"), scratch.take("parts", 8, "float32")
        other = scratch.take("locks", 8, "float32")
    assert first is again and first is not other and first is not None and not first.any()
    with scratch.pieces(device.scratch):
        assert scratch.take("parts", 8, "float32") is not first


class _FakeLibrary:
    """Answers every call with `code`, keeps what it was given, and says that it is HIP `version`."""

    def __init__(self, version: int, code: int = 0) -> None:
        self.version, self.code = version, code
        self.imported: Any = None

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == "hipRuntimeGetVersion":
                arguments[0]._obj.value = self.version
            if name.endswith("MemGetAllocationGranularity"):
                arguments[0]._obj.value = 4096
            if name.endswith("MemImportFromShareableHandle"):
                self.imported = arguments[1].value
            return self.code

        return call


@pytest.mark.parametrize(
    ("prefix", "version", "by_value"), [("cu", 0, True), ("hip", 70_200_000, True), ("hip", 60_400_000, False)]
)
def test_older_hip_wants_a_pointer_to_the_descriptor(
    monkeypatch: pytest.MonkeyPatch, prefix: str, version: int, by_value: bool
) -> None:
    library = _FakeLibrary(version)
    monkeypatch.setattr(shared_block, "driver", lambda: Driver(library, prefix))
    block = shared_block.borrow(77, 8192)
    assert block.__cuda_array_interface__["shape"] == (8192,)
    assert (library.imported == 77) is by_value
    assert shared_block.lend(5000)[0].size == 8192


def test_a_runtime_that_cannot_lend_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_block, "driver", lambda: Driver(_FakeLibrary(0, code=801), "cu"))
    with pytest.raises(DeviceError, match="cuMemGetAllocationGranularity failed with code 801"):
        shared_block.lend(4096)
    monkeypatch.setattr(shared_block, "driver", lambda: Driver(object(), "hip"))
    with pytest.raises(DeviceError, match="the runtime has no hip"):
        shared_block.borrow(3, 4096)
    monkeypatch.setattr(shared_block, "driver", lambda: None)
    with pytest.raises(DeviceError, match="neither CUDA's driver nor HIP's"):
        shared_block.lend(4096)


def test_the_structures_have_the_sizes_of_the_headers() -> None:
    assert ctypes.sizeof(shared_block._Properties) == 32
    assert ctypes.sizeof(shared_block._Access) == 12


class Read(SharedTorchMemory):
    """Memory whose reads take what a test says: of the shared block, then of the process's own, and so on."""

    def __init__(self, times_ms: list[float]) -> None:
        self.times_ms = times_ms

    def _read_ms(self, data: Any, size: int = 0) -> float:
        del data, size
        return self.times_ms.pop(0)


def test_shared_memory_is_slow_where_the_least_of_its_reads_is() -> None:
    block, fine = bytes(8), [1.0, 1.0] * LEAST_ROUNDS
    once = Read([*fine, 9.9])
    assert once._slower(block) == 1.0 and once.times_ms == [9.9]
    # A read of the process's own that others disturb makes shared memory no quicker.
    assert Read([1.3, 2.6, 1.3, 1.0] * RATE_ROUNDS)._slower(block) == 1.3
    assert Read([1.3, 1.0, 1.2, 1.0, 1.3, 1.1, 1.02, 1.0])._slower(block) == 1.02
    always = Read([1.3, 1.0, 1.2, 1.0] * RATE_ROUNDS)
    assert always._slower(block) == 1.2 and len(always.times_ms) == 2 * RATE_ROUNDS
