"""The profile beside the machine code."""

from __future__ import annotations

from gate.profiling import rocprof_csv, rocprof_json
from gate.profiling.diagnose import Subject, diagnose
from tests.codegen.records import broken, record
from tests.profiling.traces import as_csv, as_json, row

ROWS = [row(index, "k", 6.0) for index in range(5)]
CSV = rocprof_csv.kernel_trace(as_csv(ROWS), file="t.csv")
SUBJECT = Subject(calls=5, arch="gfx950")


def test_numbers_that_fit_agree() -> None:
    # 34 registers are set aside as 40, which rocprofv3 reports as 20; 16 bytes of LDS are written as 512.
    code = diagnose(CSV, SUBJECT, code=record(vgpr=34, lds_bytes=16)).code
    assert code is not None and code.agrees
    assert [fact.what for fact in code.facts] == ["VGPR set aside", "LDS bytes", "scratch bytes a lane", "workgroup"]
    assert "reported 20 x 2; the code uses 34, in granules of 8 that is 40" in code.facts[0].words


def test_numbers_that_do_not_fit_differ_in_words() -> None:
    code = diagnose(CSV, SUBJECT, code=record(vgpr=41, scratch_bytes=64, lds_bytes=600)).code
    assert code is not None and not code.agrees
    differ = {fact.what: (fact.profiled, fact.recorded) for fact in code.facts if not fact.agrees}
    assert differ == {"VGPR set aside": (40, 48), "LDS bytes": (512, 1024), "scratch bytes a lane": (0, 64)}
    assert all("differ" in fact.words for fact in code.facts if not fact.agrees)


def test_json_compares_lds_in_bytes() -> None:
    trace = rocprof_json.results(as_json(ROWS, lds=2064), file="t.json")
    code = diagnose(trace, SUBJECT, code=record(vgpr=34, lds_bytes=16)).code
    assert code is not None
    assert "what is asked for at launch is not in the code" in code.facts[1].words


def test_why_there_is_no_comparison_is_told() -> None:
    other = diagnose(CSV, Subject(calls=5, arch="gfx942"), code=record())
    assert other.code is None and any("for gfx950, the profile of gfx942" in note for note in other.notes)
    failed = diagnose(CSV, SUBJECT, code=broken())
    assert failed.code is None and any("is failed: nothing to compare" in note for note in failed.notes)
