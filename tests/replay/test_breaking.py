"""What breaks, and what lies, costs its own row and says so; what makes every row doubtful ends the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay import rig

BASE = ("--base", f"path={rig.ROOT}")


@pytest.mark.parametrize(
    ("candidate", "status", "words"),
    [
        ("segfault", "failed", "crashed with a segmentation fault during pilot"),
        ("aborts", "failed", "was aborted by its runtime during pilot"),
        ("leaves", "failed", "exited with code 3 during pilot"),
        ("killed_always", "failed", "was killed from outside"),
        ("no_memory", "oom", "the card is full"),
        ("raises", "failed", "ValueError: tile does not divide N"),
        ("absent", "unsupported", "no attribute absent"),
    ],
)
def test_what_breaks_costs_its_own_row_only(tmp_path: Path, candidate: str, status: str, words: str) -> None:
    ledger = [*rig.shapes(1), *rig.shapes(1, breaks=True), *rig.shapes(1, last=1)]
    rig.write_inputs(tmp_path, ledger=ledger, candidate=candidate)
    code, stderr = rig.run(tmp_path, *BASE)
    assert code == 0, stderr
    for side in ("head", "base"):
        found = rig.rows(tmp_path, side)
        statuses = [row.benchmark_status for row in rig.by_provider(found, "flydsl")]
        assert statuses == (["unsupported"] * 3 if candidate == "absent" else ["ok", status, "ok"])
        assert words in str(rig.by_provider(found, "flydsl")[1].skip_reason)
        assert [row.benchmark_status for row in rig.by_provider(found, "triton")] == ["ok"] * 3


def test_a_hang_ends_with_the_watchdog(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=[*rig.shapes(1), *rig.shapes(1, breaks=True)], candidate="hangs")
    code, stderr = rig.run(tmp_path, "--watchdog", "0.05")
    assert code == 0, stderr
    good, hung = rig.by_provider(rig.rows(tmp_path), "flydsl")
    assert good.benchmark_status == "ok" and hung.benchmark_status == "failed"
    assert hung.skip_reason == "worker_died: hang: no answer to pilot within 9 s"


def test_a_worker_killed_from_outside_is_asked_again_and_the_row_says_so(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1, breaks=True), candidate="killed_once", rival=None)
    code, stderr = rig.run(tmp_path, env={"SIM_MARKS": str(tmp_path)})
    assert code == 0, stderr
    row = rig.by_provider(rig.rows(tmp_path), "flydsl")[0]
    assert row.benchmark_status == "ok" and "measured again after the worker was killed" in str(row.notes)


def test_a_provider_that_prints_does_not_garble_the_answers(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1, breaks=True), candidate="chatty")
    assert rig.run(tmp_path)[0] == 0
    assert rig.by_provider(rig.rows(tmp_path), "flydsl")[0].benchmark_status == "ok"


@pytest.mark.parametrize(
    ("candidate", "code"),
    [
        ("half_rows", "unwritten"),
        ("nan_output", "nonfinite_output"),
        ("wrong_dtype", "wrong_form"),
        ("double_precision", "wrong_form"),
    ],
)
def test_a_wrong_output_has_no_time(tmp_path: Path, candidate: str, code: str) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1), candidate=candidate)
    assert rig.run(tmp_path)[0] == 0
    row = rig.by_provider(rig.rows(tmp_path), "flydsl")[0]
    assert row.benchmark_status == "incorrect" and row.correct is False and row.median_us is None
    assert str(row.correctness_error).startswith(code)


def test_a_kernel_on_its_own_stream_fails_instead_of_winning(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1), candidate="other_stream")
    assert rig.run(tmp_path)[0] == 0
    row = rig.by_provider(rig.rows(tmp_path), "flydsl")[0]
    assert row.benchmark_status == "failed" and row.median_us is None
    assert str(row.skip_reason).startswith("executed_in_capture")


def test_a_canary_that_cannot_be_taken_stops_the_session_too(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(4))
    code, stderr = rig.run(tmp_path, "--lanes", "1", sim=f"{rig.SIM},canaries=2")
    assert code == 2 and "the canary fails: OutOfMemory: no room for the canary" in stderr
    found = rig.by_provider(rig.rows(tmp_path), "flydsl")
    assert [row.benchmark_status for row in found] == ["ok"] * 2 + ["skipped"] * 2


@pytest.mark.parametrize("profiler", [0, 1])
def test_a_row_says_that_the_profiler_saw_nothing(tmp_path: Path, profiler: int) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1))
    assert rig.run(tmp_path, *BASE, sim=f"{rig.SIM},profiler={profiler}")[0] == 0
    (row,) = rig.by_provider(rig.rows(tmp_path), "flydsl")
    assert row.benchmark_status == "ok" and (row.device_us is None) == (not profiler)
    assert (row.notes == "the profiler saw no kernel: the graph was not held against an eager call") == (not profiler)


@pytest.mark.parametrize("method", ["graph_slope", "cudagraph"])
def test_times_below_zero_cost_their_rows_and_not_the_run(tmp_path: Path, method: str) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(2))
    code, stderr = rig.run(tmp_path, *BASE, "--method", method, sim="memory=64,l2=0.05,noise=30")
    assert code == 2 and "no row is ok" in stderr and "Traceback" not in stderr
    found = [row for row in rig.rows(tmp_path) if row.provider != "ck"]
    assert [row.benchmark_status for row in found] == ["failed"] * 4
    assert all(row.median_us is None and "invalid_time" in str(row.skip_reason) for row in found)


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        ("timeless", "invalid_time: times that are no numbers: 2 of 2, such as nan"),
        ("timeless_later", "invalid_time: times that are no numbers: 2 of 5, such as nan"),
        ("wordless", "TypeError: the provider's detail is 5, which is no str"),
        ("choosing_badly", "TypeError: the provider's choice is 64, which is no str"),
    ],
)
def test_what_no_row_could_hold_costs_its_own_row_only(tmp_path: Path, candidate: str, words: str) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1), candidate=candidate)
    code, stderr = rig.run(tmp_path, *BASE)
    assert code == 0, stderr
    (row,) = rig.by_provider(rig.rows(tmp_path), "flydsl")
    assert row.benchmark_status == "failed" and row.median_us is None
    assert words in str(row.skip_reason)
    assert rig.by_provider(rig.rows(tmp_path), "triton")[0].benchmark_status == "ok"


def test_a_row_says_what_its_provider_chose_for_its_tensors(tmp_path: Path) -> None:
    rig.write_inputs(tmp_path, ledger=rig.shapes(1), candidate="choosing")
    assert rig.run(tmp_path, *BASE)[0] == 0
    details = {(row.provider, row.provider_detail) for row in rig.rows(tmp_path) if row.benchmark_status == "ok"}
    assert ("flydsl", "simulated; tile=64") in details and ("triton", "simulated") in details


def test_a_shape_whose_op_has_no_matrix_is_told_before_anything_runs(tmp_path: Path) -> None:
    ledger = [*rig.shapes(1), rig.make_shape(op_type="softmax", dtype="fp32", args={"M": 4, "N": 64})]
    rig.write_inputs(tmp_path, ledger=ledger)
    code, stderr = rig.run(tmp_path)
    assert code == 2 and "is of op softmax, which no matrix is for" in stderr
    assert len(stderr.strip().splitlines()) == 1
