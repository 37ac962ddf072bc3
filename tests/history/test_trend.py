"""Series and what is said of them: usable times only, one contract each, changes with the run that made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytest.importorskip("ruptures")

from gate.history.index import indices
from gate.history.trend import trends
from gate.model.history import SeriesTrend
from tests.history import nights


def kernel_steps(number: int, shape: int, provider: str) -> float:
    """The candidate is 5% slower on the first shape from night 30 on."""
    return 10.5 if (shape, provider) == (0, "flydsl") and number >= 30 else 10.0


def machine_steps(number: int, shape: int, provider: str) -> float:
    return 10.5 if number >= 30 else 10.0


def one(store: Path, shape: int = 0, provider: str = "flydsl") -> SeriesTrend:
    (found,) = trends(nights.series_of(store, shapes=(nights.SHAPES[shape],), providers=(provider,)))
    return found


def changes(store: Path) -> list[tuple[str, str, bool]]:
    found = trends(nights.series_of(store))
    return [(one.series.shape_id, one.series.provider, change.machine) for one in found for change in one.changes]


def test_a_change_names_its_run_its_commits_and_how_long_it_lasts(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(40), kernel_steps)
    found = trends(nights.series_of(tmp_path))
    assert len(found) == 9
    (change,) = found[0].changes
    assert not any(other.changes for other in found[1:])
    assert (found[0].series.provider, found[0].series.shape_id) == ("flydsl", nights.SHAPES[0])
    assert (change.run, change.commit, change.before) == ("night-30", f"{30:040x}", f"{29:040x}")
    assert change.ratio == pytest.approx(1.05, rel=0.005) and change.runs_since == 10
    assert change.others == pytest.approx(1.0, abs=0.005) and not change.machine
    assert found[0].noise.limit is not None and found[0].noise.limit < 0.03, "the step is no noise"


def test_when_every_provider_moves_the_machine_did_it(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(40), machine_steps)
    found = changes(tmp_path)
    assert len(found) == 9 and all(machine for _, _, machine in found)


def test_the_kernels_changes_come_before_those_of_the_machine(tmp_path: Path) -> None:
    def times(number: int, shape: int, provider: str) -> float:
        machine = 1.2 if shape == 1 and number >= 30 else 1.0
        return machine * kernel_steps(number, shape, provider)

    nights.fill(tmp_path, range(40), times)
    found = [one for one in trends(nights.series_of(tmp_path)) if one.changes]
    assert [one.changes[0].machine for one in found] == [False, True, True, True]


def test_without_another_provider_nobody_can_say_whose_change_it_is(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(40), kernel_steps)
    (change,) = one(tmp_path).changes
    assert change.others is None and not change.machine


@pytest.mark.parametrize("when", [range(40), range(39, -1, -1)])
def test_runs_are_in_the_order_they_were_measured_not_added(tmp_path: Path, when: range) -> None:
    nights.fill(tmp_path, when, kernel_steps)
    found = one(tmp_path)
    assert found.first == nights.FIRST and found.runs == 40
    assert found.changes[0].run == "night-30"


NO_POINT: dict[str, dict[str, Any]] = {
    "failed": {"benchmark_status": "failed"},
    "wrong": {"benchmark_status": "incorrect", "correct": False},
    "unchecked": {"correct": None},
    "machine code": {"timing_method": "codegen"},
    "no time": {"median_us": None},
    "zero": {"median_us": 0.0},
    "negative": {"median_us": -1.0},
}


@pytest.mark.parametrize("how", NO_POINT)
def test_rows_without_a_time_of_a_checked_output_are_no_points(tmp_path: Path, how: str) -> None:
    nights.fill(tmp_path, range(3))
    nights.add(tmp_path, 3, [nights.row(3, 0, "flydsl", **{"time_us": 99.0} | rest(how))])
    assert one(tmp_path).runs == 3


def rest(how: str) -> dict[str, Any]:
    return dict(NO_POINT[how])


def test_a_series_that_a_run_measured_twice_has_no_point_there_and_that_is_counted(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(3))
    rows = nights.night(3, nights.flat)
    nights.add(tmp_path, 3, [*rows, nights.row(3, 0, "flydsl", 77.0)])
    found = one(tmp_path)
    assert (found.runs, found.left_out) == (3, 1)
    assert one(tmp_path, shape=1).runs == 4


def test_rows_of_the_base_are_kept_and_are_no_points_of_the_nightly_series(tmp_path: Path) -> None:
    nights.add(tmp_path, 0, nights.night(0, nights.flat), base=nights.night(0, lambda *_: 20.0))
    assert one(tmp_path).last_us == pytest.approx(10, rel=0.02)
    ((base,),) = [nights.series_of(tmp_path, side="base", providers=("triton",), shapes=nights.SHAPES[:1]).logs.shape]
    assert base == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"timing_method": "device_timestamps"}, (("timing_method",), "graph_slope", "device_timestamps")),
        ({"cache_state": "hot"}, (("cache_state",), "cold_hbm", "hot")),
        (
            {"gpu": "NVIDIA H200", "arch": "sm_90"},
            (("gpu", "arch"), "AMD Instinct MI350X, gfx950", "NVIDIA H200, sm_90"),
        ),
    ],
)
def test_another_contract_starts_a_new_series_and_is_said(
    tmp_path: Path, fields: dict[str, Any], said: tuple[Any, ...]
) -> None:
    nights.fill(tmp_path, range(20))
    nights.fill(tmp_path, range(20, 40), lambda *_: 15.0, **fields)
    found = trends(nights.series_of(tmp_path, providers=("flydsl",)))
    assert [one.runs for one in found] == [20] * 6
    assert not any(one.changes for one in found), "15 us are compared with nothing"
    told = [brk for one in found for brk in one.breaks]
    assert {(brk.fields, brk.before, brk.after) for brk in told} == {said} and len(told) == 3


def test_two_gpus_side_by_side_take_nobodys_place(tmp_path: Path) -> None:
    for number in range(10):
        rows = [*nights.night(number, nights.flat), *nights.night(number, nights.flat, gpu="NVIDIA H200", arch="sm_90")]
        nights.add(tmp_path, number, rows)
    assert [one.breaks for one in trends(nights.series_of(tmp_path))] == [()] * 18


def test_names_from_outside_are_values_and_never_part_of_a_query(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(2))
    for text in ("'; DROP VIEW history; --", "' OR '1'='1", "%", "\\", "\x00"):
        assert nights.series_of(tmp_path, ops=(text,)).series == ()
    assert len(nights.series_of(tmp_path, ops=("rmsnorm",)).series) == 9


def test_a_store_in_a_folder_with_a_quote_is_read(tmp_path: Path) -> None:
    store = tmp_path / "o'store [1] *"
    nights.fill(store, range(2))
    assert len(nights.series_of(store).series) == 9


def test_an_index_follows_all_series_of_an_op_together(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(40), machine_steps)
    found = {index.provider: index for index in indices(nights.series_of(tmp_path))}
    assert set(found) == set(nights.PROVIDERS)
    index = found["flydsl"]
    assert index.n == (3,) * 40
    assert index.ratio[39] / index.ratio[0] == pytest.approx(1.05, rel=0.01)


def test_a_series_weighs_the_same_however_long_its_times_are_and_the_usual_run_is_one(tmp_path: Path) -> None:
    def times(number: int, shape: int, provider: str) -> float:
        return 10.0 ** (shape + 1) * (1.21 if number == 3 and shape == 0 else 1.0)

    nights.fill(tmp_path, range(5), times, noise=0.0)
    nights.add(tmp_path, 5, [nights.row(5, 1, "flydsl", 100.0), nights.row(5, 2, "flydsl", 2000.0)])
    (index,) = (one for one in indices(nights.series_of(tmp_path)) if one.provider == "flydsl")
    assert index.n == (3, 3, 3, 3, 3, 2)
    assert index.ratio == pytest.approx((1, 1, 1, 1.21 ** (1 / 3), 1, 2**0.5))


def test_only_the_last_runs_are_looked_at(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(60), lambda number, *_: 10.0 if number < 30 else 12.0)
    timeline = nights.series_of(tmp_path, providers=("flydsl",))
    assert [len(one.changes) for one in trends(timeline)] == [1] * 3
    assert [(len(one.changes), one.runs) for one in trends(timeline, last=25)] == [(0, 60)] * 3
