"""What an output folder may hold: a run of one kind, with what it was asked; nothing measured is nobody's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gate.model.problem import UnusableInput, WrongUsage
from gate.replay.journal import open_journal
from gate.replay.run_folder import CODE, ROWS, SESSION, TIMED, claim, held

ASKED = {"--op": "", "the ledgers": {"vec_add": "1", "softmax": "2"}}


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def session(folder: Path, *, records: int = 1) -> None:
    journal, _, _ = open_journal(folder, header={"fingerprint": ASKED}, resume=False)
    for number in range(records):
        journal.append({"shape_id": f"s{number}"})
    journal.close()


def timed(folder: Path) -> None:
    session(folder / "replay")
    put(folder / "run.json", json.dumps({"kind": TIMED, "day": "2026-01-01", "asked": ASKED}))


def shard(folder: Path) -> None:
    put(folder / "part.json", "{}")
    put(folder / "results/vec_add/benchmark_results.jsonl", "{}\n")


def code(folder: Path) -> None:
    put(folder / "run.json", json.dumps({"kind": CODE, "asked": ASKED}))
    put(folder / "results/vec_add/benchmark_results.jsonl", "{}\n")
    put(folder / "results/vec_add/codegen_records.jsonl", "{}\n")


def code_begun(folder: Path) -> None:
    put(folder / "run.json", json.dumps({"kind": CODE, "asked": ASKED}))
    put(folder / "compiled/one.json", "{}")


def code_without_kernels(folder: Path) -> None:
    put(folder / "run.json", json.dumps({"kind": CODE, "asked": ASKED}))
    put(folder / "results/flash_attn/benchmark_results.jsonl", "{}\n")


def merged(folder: Path) -> None:
    put(folder / "results/vec_add/benchmark_results.jsonl", "{}\n")


HOLDING = [
    (session, SESSION),
    (timed, TIMED),
    (shard, TIMED),
    (code, CODE),
    (code_begun, CODE),
    (code_without_kernels, CODE),
    (merged, ROWS),
]


KINDS = (SESSION, TIMED, CODE, ROWS)
PAIRS = [(fill, kind, other) for fill, kind in HOLDING for other in KINDS if other != kind]


@pytest.mark.parametrize(("fill", "kind", "other"), PAIRS)
@pytest.mark.parametrize("more", [{}, {"resume": True}, {"anew": True}, {"resume": True, "asked": ASKED}])
def test_a_run_of_another_kind_is_refused_whichever_was_there_first(
    tmp_path: Path, fill: Callable[[Path], None], kind: str, other: str, more: dict[str, object]
) -> None:
    fill(tmp_path)
    assert held(tmp_path) == kind
    with pytest.raises(WrongUsage, match=f"holds {kind}, whose rows and verdict .*; name another --out"):
        claim(tmp_path, other, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fill", "kind"), HOLDING[:-1])
def test_a_run_is_gone_on_with_or_replaced_on_purpose_only(
    tmp_path: Path, fill: Callable[[Path], None], kind: str
) -> None:
    fill(tmp_path)
    with pytest.raises(UnusableInput, match="already holds a run; give --resume"):
        claim(tmp_path, kind, asked=ASKED)
    assert claim(tmp_path, kind, asked=ASKED, resume=True) and claim(tmp_path, kind, asked=ASKED, anew=True)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({**ASKED, "--op": "vec_add"}, "--op was not given there and is vec_add here; give another --out"),
        ({**ASKED, "the ledgers": {"vec_add": "1", "softmax": "3"}}, "another run: the ledgers (softmax) differ; give"),
        ({"--op": "", "the ledgers": {"vec_add": "1"}}, "another run: the ledgers (softmax) differ; give"),
        ({"--op": ""}, "it is of another kind, or of another version; give another --out"),
    ],
)
@pytest.mark.parametrize(("fill", "kind"), [(session, SESSION), (timed, TIMED), (code, CODE), (code_begun, CODE)])
def test_what_goes_on_was_asked_the_same(
    tmp_path: Path, fill: Callable[[Path], None], kind: str, asked: dict[str, object], words: str
) -> None:
    fill(tmp_path)
    with pytest.raises(UnusableInput) as refused:
        claim(tmp_path, kind, asked=asked, resume=True)
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 10**5, '{"kind": "a run of machine code"}'])
def test_a_run_of_machine_code_that_does_not_say_what_it_was_asked_is_not_gone_on_with(
    tmp_path: Path, text: str
) -> None:
    code(tmp_path)
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UnusableInput, match="it does not say what it was asked"):
        claim(tmp_path, CODE, asked=ASKED, resume=True)
    assert claim(tmp_path, CODE, asked=ASKED, anew=True)


def nothing(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def timed_unmeasured(folder: Path) -> None:
    session(folder / "replay", records=0)
    put(folder / "run.json", json.dumps({"kind": TIMED, "day": "2026-01-01", "asked": ASKED}))
    put(folder / "decision.json", "{}")


def code_uncompiled(folder: Path) -> None:
    put(folder / "run.json", json.dumps({"kind": CODE, "asked": ASKED}))
    put(folder / "decision.json", "{}")


def torn(folder: Path) -> None:
    session(folder, records=1)
    path = folder / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("fill", [nothing, timed_unmeasured, code_uncompiled, torn])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("resume", [False, True])
def test_where_nothing_was_measured_any_run_may_begin(
    tmp_path: Path, fill: Callable[[Path], None], kind: str, resume: bool
) -> None:
    fill(tmp_path)
    assert held(tmp_path) is None
    assert not claim(tmp_path, kind, asked={"--op": "softmax"}, resume=resume)


def test_a_journal_whose_damage_other_lines_follow_is_not_nothing(tmp_path: Path) -> None:
    session(tmp_path, records=2)
    path = tmp_path / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for at in (0, 1):
        path.write_bytes(b"".join([*lines[:at], b"\0\n", *lines[at + 1 :]]))
        assert held(tmp_path) == SESSION
