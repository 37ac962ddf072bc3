"""`gate replay` from the command line to the files, on the simulated GPU with real worker processes."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from tests.replay import rig

BASE = ("--base", f"path={rig.ROOT}")


def median(values: list[float]) -> float:
    return statistics.median(values)


def test_one_session_writes_paired_rows_for_every_shape_and_provider(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(3))
    code, stderr = rig.run(tmp_path, *BASE, "--lanes", "2")
    assert code == 0, stderr
    head, base = rig.rows(tmp_path), rig.rows(tmp_path, "base")
    assert [(row.shape_id, row.provider) for row in head] == [(row.shape_id, row.provider) for row in base]
    assert len(head) == 3 * 3
    assert {row.session_id for row in head + base} == {rig.manifest(tmp_path)["session_id"]}
    for row, twin in zip(head, base, strict=True):
        if row.provider == "ck":
            assert row.benchmark_status == "not_configured" and row.skip_reason == "no such kernel"
            continue
        assert row.benchmark_status == "ok" and row.correct and row.timing_method == "graph_slope"
        assert row.blocks_us is not None and twin.blocks_us is not None
        assert len(row.blocks_us) == len(twin.blocks_us) == 4
        assert {len(block) for block in row.blocks_us} == ({2} if row.provider == "flydsl" else {1})
        want = 10.0 if row.provider == "flydsl" else 9.0
        assert row.median_us == pytest.approx(want, rel=0.01)
        assert row.gpu == "simulated" and row.device_us == pytest.approx(want, rel=0.01)
        assert row.eager_median_us is not None and row.host_overhead_us == row.eager_median_us - (row.median_us or 0)
    assert rig.by_provider(head, "triton")[0].blocks_us != rig.by_provider(base, "triton")[0].blocks_us
    assert rig.manifest(tmp_path)["missing"] == []


def test_the_same_seed_gives_the_same_rows(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        rig.write_inputs(tmp_path / name, ledger=rig.shapes(2))
        assert rig.run(tmp_path / name, *BASE)[0] == 0
        found.append(rig.comparable(rig.rows(tmp_path / name)))
    assert found[0] == found[1]


def test_two_builds_are_told_apart_by_their_own_environment(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(2), candidate="arm")
    code, stderr = rig.run(
        tmp_path, "--base", f"path={rig.ROOT},commit=b4se", "--head", f"path={rig.ROOT},commit=h34d,env=SIM_FACTOR:1.08"
    )
    assert code == 0, stderr
    head, base = (rig.by_provider(rig.rows(tmp_path, side), "flydsl") for side in ("head", "base"))
    assert {row.candidate_commit for row in head} == {"h34d"} and {row.candidate_commit for row in base} == {"b4se"}
    for h, b in zip(head, base, strict=True):
        assert h.median_us is not None and b.median_us is not None
        assert h.median_us / b.median_us == pytest.approx(1.08, abs=0.005)
        # A suspect is looked at again, in fresh processes, up to the last look.
        assert h.blocks_us is not None and len(h.blocks_us) == 8
        assert h.block_process == b.block_process == (0, 0, 0, 0, 1, 1, 2, 2)


def test_a_head_alone_is_measured_without_a_base(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1))
    assert rig.run(tmp_path)[0] == 0
    assert not (tmp_path / "out" / "base").exists()
    assert rig.by_provider(rig.rows(tmp_path), "flydsl")[0].benchmark_status == "ok"


def test_the_legacy_method_goes_by_its_own_name(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1))
    assert rig.run(tmp_path, "--method", "cudagraph")[0] == 0
    row = rig.by_provider(rig.rows(tmp_path), "flydsl")[0]
    assert row.timing_method == "cudagraph" and row.cache_state == "l2_flushed_graph"
    # It keeps the floor of 4 us.
    assert row.median_us == pytest.approx(14.0, rel=0.01)


def test_a_selection_leaves_rows_that_say_why(tmp_path: Path) -> None:
    ledger = rig.shapes(3)
    rig.write_inputs(tmp_path, ledger=ledger)
    assert rig.run(tmp_path, "--limit", "1", "--providers", "ck")[0] == 0
    found = rig.rows(tmp_path)
    assert len(found) == 9
    assert [row.benchmark_status for row in rig.by_provider(found, "flydsl")] == ["ok", "skipped", "skipped"]
    assert rig.by_provider(found, "flydsl")[1].skip_reason == "not selected: beyond --limit 1"
    assert {row.skip_reason for row in rig.by_provider(found, "triton")[:1]} == {
        "not selected: not named by --providers"
    }


def test_correctness_takes_no_times(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(2), candidate="slightly_wrong")
    code, stderr = rig.run(tmp_path, verb="correctness")
    assert code == 0, stderr
    found = rig.rows(tmp_path, name="correctness_results.jsonl")
    assert [row.benchmark_status for row in rig.by_provider(found, "flydsl")] == ["incorrect"] * 2
    assert [row.benchmark_status for row in rig.by_provider(found, "triton")] == ["ok"] * 2
    assert all(row.median_us is None for row in found)


@pytest.mark.parametrize(
    ("candidate", "rival", "fields"),
    [
        ("slightly_wrong", None, "correctness_error"),
        ("raises", None, "skip_reason"),
        ("slightly_wrong", "raises", "correctness_error and skip_reason"),
    ],
)
def test_where_no_row_is_ok_the_fields_that_say_why_are_named(
    tmp_path: Path, candidate: str, rival: str | None, fields: str
) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1, breaks=True), candidate=candidate, rival=rival)
    code, stderr = rig.run(tmp_path, verb="correctness")
    assert code == 2 and stderr.endswith(f"no row is ok; see {fields} in the rows and OUT/logs\n")
    bad = [row for row in rig.rows(tmp_path, name="correctness_results.jsonl") if row.provider != "ck"]
    assert all(any(getattr(row, name) for name in fields.split(" and ")) for row in bad) and bad


def test_a_drifting_machine_stops_the_session_and_can_be_resumed(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(6))
    code, stderr = rig.run(tmp_path, "--lanes", "1", sim=f"{rig.SIM},drift=0.05,drift_after=3")
    assert code == 2
    assert "the spin canary went from 100.0 to 105.0 us (+5.0%)" in stderr
    found = rig.by_provider(rig.rows(tmp_path), "flydsl")
    assert [row.benchmark_status for row in found] == ["ok"] * 3 + ["skipped"] * 3
    assert "the machine changed" in str(found[-1].skip_reason)


@pytest.mark.parametrize(("gpus", "named"), [("2", ["0", "1"]), ("1,3", ["1", "3"])])
def test_shapes_are_shared_out_over_gpus(tmp_path: Path, gpus: str, named: list[str]) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(8))
    assert rig.run(tmp_path, *BASE, "--gpus", gpus, "--lanes", "1")[0] == 0
    machines = rig.manifest(tmp_path)["machines"]
    assert [machine["gpu"] for machine in machines] == named
    assert sum(machine["shapes"] for machine in machines) == 8
    assert min(machine["shapes"] for machine in machines) >= 1
    assert [row.benchmark_status for row in rig.by_provider(rig.rows(tmp_path), "flydsl")] == ["ok"] * 8


def test_without_a_gpu_there_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if Path("/dev/kfd").exists() or Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    rig.write_inputs(tmp_path, ledger=rig.shapes(1))
    arguments = rig.arguments(tmp_path)
    place = arguments.index("--simulate")
    del arguments[place : place + 2]
    process = rig.subprocess.run(
        [rig.sys.executable, "-m", "gate", *arguments], cwd=rig.ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    assert process.stderr.strip().startswith("gate: no GPU: this machine has none")
    assert len(process.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--blocks", "8,4"], "--blocks 8,4 is not a rising list"),
        (["--gpus", "some"], "--gpus some is none of"),
        (["--shape", "sha1:0000000000000000"], "is in no ledger"),
        (["--candidate", "gluon"], "not an enabled provider"),
        (["--providers", "nobody"], "--providers nobody is in no matrix"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, more: list[str], words: str) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1))
    code, stderr = rig.run(tmp_path, *more)
    assert code == 64 and words in stderr and len(stderr.strip().splitlines()) == 1


def test_the_samples_recompute_the_rows(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1))
    assert rig.run(tmp_path, *BASE)[0] == 0
    samples = rig.samples(tmp_path)
    row = rig.by_provider(rig.rows(tmp_path), "flydsl")[0]
    times = [item["t_us"] for item in samples if item["arm"] == "head/flydsl"]
    assert row.median_us == pytest.approx(median(times))
    first = samples[0]
    slope = (median(first["full_us"]) - median(first["single_us"])) / (first["launches"] - 1)
    assert first["t_us"] == pytest.approx(slope)
    assert all(math.isfinite(item["t_us"]) for item in samples)


def test_workers_do_not_outlive_their_coordinator(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(40))
    process = rig.start(tmp_path, *BASE)
    rig.wait_for(lambda: len(rig.workers_of(process.pid)) >= 3)
    workers = rig.workers_of(process.pid)
    process.kill()
    process.communicate()
    rig.wait_for(lambda: not any(Path(f"/proc/{pid}").exists() and rig.is_worker(pid) for pid in workers))
    assert (tmp_path / "out" / "journal.jsonl").exists()


def test_a_mistyped_entrypoint_is_told_where_its_rows_are_counted(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(3), candidate="goood", rival=None)
    code, stderr = rig.run(tmp_path)
    whys = {row.skip_reason for row in rig.by_provider(rig.rows(tmp_path), "flydsl")}
    (counts,) = [line for line in stderr.splitlines() if line.startswith("head: ")]
    assert code == 2 and len(whys) == 1 and "goood" in min(map(str, whys))
    assert counts.startswith("head: 3 not_configured, 3 unsupported; ") and counts.endswith(f"; {whys.pop()}")


def test_the_other_reasons_are_counted_beside_the_first(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1), candidate="goood", rival="rivall")
    (counts,) = [line for line in rig.run(tmp_path)[1].splitlines() if line.startswith("head: ")]
    assert "goood" in counts and "rivall" not in counts and counts.endswith(" (and 1 other reason)")
