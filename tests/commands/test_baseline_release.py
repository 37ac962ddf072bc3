"""A pinned release: what is pinned, that it is kept as it is, and where it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from tests.commands.baseline_desk import DAY, NEXT, RELEASE, SHA, CodeDesk, Desk, drift, later, pin
from tests.factory import decision_in


@pytest.fixture
def desk(desk: Desk) -> Desk:
    assert desk.promote(desk.passed())[0] == 0
    return desk


def test_a_pinned_release_is_the_baseline_of_that_day_and_survives_promotions(desk: Desk) -> None:
    times = (desk.place / store.RESULTS_FILE).read_bytes()
    assert pin(desk) == (0, "")
    folder = desk.place / "release" / RELEASE
    assert (folder / store.RESULTS_FILE).read_bytes() == times
    line = json.loads((folder / "provenance.jsonl").read_text())
    assert (line["release"], line["pinned"], line["commit"]) == (RELEASE, DAY, SHA)
    assert desk.promote(desk.passed("second", seed=3, commit=NEXT), commit=NEXT)[0] == 0
    assert (folder / store.RESULTS_FILE).read_bytes() == times
    assert run(["ledger", "check", str(desk.ledgers)]) == 0, "the lock covers the release"


def test_a_release_is_pinned_once(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    before = desk.files()
    assert pin(desk)[0] == 0 and "already pinned" in desk.out
    assert desk.files() == before
    assert desk.promote(desk.passed("second", seed=3, commit=NEXT), commit=NEXT)[0] == 0
    before = desk.files()
    code, error = pin(desk)
    assert code == 1 and f"release {RELEASE} is pinned already, with other times" in error
    assert desk.files() == before
    assert pin(desk, release="v0.6.0")[0] == 0


@pytest.mark.parametrize("name", ["", "..", "../up", "a/b", "-x", "a b", "x" * 65, "v1\n"])
def test_the_name_of_a_release_is_one_plain_word(desk: Desk, name: str) -> None:
    before = desk.files()
    code, error = pin(desk, release=name)
    assert code == 64 and "is no name of a release" in error
    assert desk.files() == before


def test_what_is_not_there_cannot_be_pinned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = Desk(tmp_path, capsys)
    code, error = pin(empty)
    assert code == 2 and "no baseline of times to pin" in error
    code, error = pin(empty, "--op", "gemm")
    assert code == 64 and "no op gemm; the ops are rmsnorm" in error


def test_a_hand_edited_release_is_told(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    with (desk.place / "release" / RELEASE / store.RESULTS_FILE).open("ab") as file:
        file.write(b"\n")
    assert run(["ledger", "freeze", str(desk.ledgers)]) == 0
    code, error = drift(desk, later(desk, "later"))
    assert code == 2 and "not what the last line of provenance.jsonl says" in error


def test_machine_code_has_no_release_and_is_promoted_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = CodeDesk(tmp_path, capsys)
    assert code.promote(code.compiled("run", code.records(flydsl_version="0.5.0")))[0] == 0
    result, error = pin(code)
    assert result == 2 and "no baseline of times to pin" in error


def test_show_lists_releases_with_their_age(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    argv = ("baseline", "show", "--ledgers", str(desk.ledgers), "--today", "2026-06-30")
    assert desk.call(*argv)[0] == 0
    assert desk.out.count("29 d") == 2 and f"{RELEASE} (pinned)" in desk.out
    assert desk.call(*argv, "--json")[0] == 0
    assert [one["release"] for one in json.loads(desk.out)] == [None, RELEASE]


def test_validate_knows_a_provenance_and_each_line_that_breaks_it(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    path = desk.place / "provenance.jsonl"
    assert desk.call("validate", str(path)) == (0, "") and "provenance, 1 record, valid" in desk.out
    good = path.read_text()
    broken = json.loads(good) | {"how": "by hand", "sha256": "1"}
    path.write_text(good + json.dumps(broken) + "\n" + good)
    code, error = desk.call("validate", str(path))
    assert code == 2
    assert "provenance.jsonl:2:" in error and "provenance.jsonl:3:" in error and "is already on line 1" in error
    assert desk.call("validate", str(desk.ledgers))[0] == 2, "a file of that name is never skipped"


def test_a_release_is_not_taken_for_the_base_of_a_judgement(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    source = later(desk, "later", k=None)
    argv = ["judge", "--ledger", str(desk.ledgers), "--matrix", str(desk.ledgers), "--base", str(desk.ledgers)]
    out = source / "decision"
    assert run([*argv, "--head", str(source / "head"), "--out", str(out), "--today", DAY]) == 0
    assert decision_in(out)["environment"]["base"]["candidate_commit"] == SHA
