"""What a profiler saw is evidence of the classification: of its own row, its own commit, and of slow rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.analysis import profiled
from gate.cli import run as gate
from gate.model.decision import Decision
from gate.model.diagnosis import Diagnosis, Durations, Occupancy, ProfiledKernel
from tests.analysis import build
from tests.analysis.test_judge_command import lay_out
from tests.factory import decision_in

LEDGER = build.ledger()
SLOW = LEDGER.shapes[4].shape_id


def kernel(**fields: Any) -> ProfiledKernel:
    durations = Durations(n=9, min_us=20.0, median_us=21.0, max_us=23.0, total_us=190.0)
    return ProfiledKernel(name="k", role="kernel", count=9, durations=durations, **fields)


def diagnosis(shape_id: str = SLOW, *, main: ProfiledKernel | None = None, **fields: Any) -> Diagnosis:
    given = {"call_us": 21.0, "dispatches_per_call": 1.0, "kernels": (main or kernel(),), **fields}
    return Diagnosis(shape_id=shape_id, provider="flydsl", tool="rocprofv3", **given)


def few_waves(**fields: Any) -> Occupancy:
    return Occupancy(**{"resident": 2.0, "most": 8, "unit": "waves per SIMD", "limited_by": "registers", **fields})


def judged(*found: Diagnosis) -> Decision:
    """Row 4 is far behind its best baseline in base and head alike, and nothing but a profile says why."""
    rivals = {"aiter": 0.75, "triton": 1.1, "pytorch": 2.0}
    base, head = (build.run(LEDGER, seed=seed, rivals=rivals) for seed in (1, 2))
    profiles = {(one.shape_id, one.provider): one for one in found}
    return build.decide(LEDGER, base, head, profiles=profiles)


CASES: list[tuple[Diagnosis, str, str]] = [
    (diagnosis(main=kernel(scratch_bytes=64)), "flydsl_codegen_gap", "64 bytes of scratch a lane"),
    (diagnosis(main=kernel(occupancy=few_waves())), "flydsl_codegen_gap", "room for 2 of 8 waves a SIMD, held by"),
    (diagnosis(dispatches_per_call=3.0), "implementation_gap", "the profiler sees 3 kernels a call"),
    (
        diagnosis(main=kernel(occupancy=few_waves(resident=8.0, limited_by="", workgroups_per_cu=0.25))),
        "implementation_gap",
        "workgroups for 25% of the compute units",
    ),
    (diagnosis(call_us=4.0), "launch_or_roofline_limited", "4 us of kernels in 2"),
]  # fmt: skip


@pytest.mark.parametrize(("found", "category", "evidence"), CASES)
def test_a_profile_explains_a_slow_row(found: Diagnosis, category: str, evidence: str) -> None:
    decided = judged(found)
    row = build.row(decided, 4)
    assert row.classification == category
    assert evidence in row.evidence
    assert "aiter (0.7" in row.evidence
    assert decided.problems == ()
    assert msgspec.structs.replace(decided, rows=()) == msgspec.structs.replace(judged(), rows=())


def test_nothing_odd_in_a_profile_changes_nothing() -> None:
    assert judged(diagnosis(main=kernel(occupancy=few_waves(resident=8.0, limited_by="")))) == judged()


def test_another_providers_profile_is_no_evidence() -> None:
    other = msgspec.structs.replace(CASES[0][0], provider="aiter")
    assert build.row(judged(other), 4) == build.row(judged(), 4)
    assert judged(other).problems == (f"profiles: {SLOW} of aiter is no row of the ledger",)


def test_another_commits_profile_is_told_and_no_evidence() -> None:
    old = diagnosis(main=kernel(scratch_bytes=64), commit="0123456789abcdef")
    decided = judged(old)
    assert build.row(decided, 4) == build.row(judged(), 4)
    assert decided.problems == (f"profiles: {SLOW} was profiled at 0123456789ab, and head is c0ffee",)
    same = diagnosis(main=kernel(scratch_bytes=64), commit="c0ffee00")
    assert build.row(judged(same), 4).classification == "flydsl_codegen_gap"


def test_an_absent_number_is_no_evidence() -> None:
    empty = Diagnosis(shape_id=SLOW, provider="flydsl", tool="rocprofv3")
    found = (profiled.of_code(empty), profiled.of_launches(empty), profiled.of_time(empty, 20.0))
    assert found == ("", "", "")


def test_the_verb_reads_a_folder_of_diagnoses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*lay_out(tmp_path), "--profiles", str(tmp_path / "profiles")]
    (tmp_path / "profiles").mkdir()
    assert gate(command) == 2
    assert "no diagnosis.json in this folder" in capsys.readouterr().err
    store.write_json(tmp_path / "profiles" / "a" / "diagnosis.json", diagnosis("sha1:gone"))
    assert gate(command) == 0
    assert decision_in(tmp_path / "out")["problems"] == ["profiles: sha1:gone of flydsl is no row of the ledger"]
    store.write_json(tmp_path / "profiles" / "b" / "diagnosis.json", diagnosis("sha1:gone"))
    assert gate(command) == 2
    assert "a second diagnosis of sha1:gone of flydsl" in capsys.readouterr().err
    (tmp_path / "profiles" / "b" / "diagnosis.json").write_text("{")
    assert gate(command) == 2
    assert "not a diagnosis" in capsys.readouterr().err
