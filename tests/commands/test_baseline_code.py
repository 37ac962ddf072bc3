"""Stored machine code: which records may become a baseline, and each refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.ledgers.baselines import CodeOffer
from gate.ledgers.promotion import code_faults
from tests.codegen import records
from tests.commands.baseline_desk import DAY, LEDGER, NEXT, SHA, CodeDesk, head


@pytest.fixture
def code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CodeDesk:
    return CodeDesk(tmp_path, capsys)


def test_machine_code_is_promoted_by_a_codegen_decision_and_other_providers_stay(code: CodeDesk) -> None:
    path = code.place / store.CODEGEN_FILE
    other = msgspec.structs.replace(code.records()[0], compile_key="rmsnorm/triton/x", provider="triton")
    store.write_jsonl(path, [other])
    assert run(["ledger", "freeze", str(code.ledgers)]) == 0
    before = path.read_bytes()
    assert code.promote(code.compiled("run", code.records(flydsl_version="0.5.0"))) == (0, "")
    stored = store.read_codegen([path])
    assert {one.provider for one in stored.values()} == {"flydsl", "triton"}
    assert all(one.compile_seconds is None for one in stored.values())
    (line,) = code.lines()
    assert (line.contents, line.timing_method, line.stack["flydsl_version"]) == ("machine_code", "codegen", "0.5.0")
    assert (code.place / "history" / "0" / store.CODEGEN_FILE).read_bytes() == before
    assert run(["ledger", "check", str(code.ledgers)]) == 0
    assert code.call("baseline", "show", "--ledgers", str(code.ledgers), "--today", DAY)[0] == 0
    assert "codegen" in code.out and SHA[:12] in code.out
    assert code.promote(code.folder / "run")[0] == 0 and "the machine code is the same" in code.out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernels_commit": f"{SHA}-changed"}, "the tree was dirty"),
        ({"kernels_commit": NEXT}, f"records are of {NEXT}"),
    ],
)
def test_machine_code_of_another_tree_is_refused(code: CodeDesk, changes: dict[str, Any], words: str) -> None:
    source = code.compiled("run", code.records(**changes))
    before = code.files()
    result, error = code.promote(source)
    assert result == 1 and words in error and code.files() == before


def test_machine_code_must_be_that_of_the_decision_and_whole(code: CodeDesk) -> None:
    source = code.compiled("run", code.records())
    before = code.files()
    path = source / "code" / "head" / store.CODEGEN_FILE
    store.write_jsonl(path, [msgspec.structs.replace(one, isa_sha="c" * 16) for one in code.records()])
    result, error = code.promote(source)
    assert result == 2 and "the decision is of other results" in error
    extra = msgspec.structs.replace(code.records()[0], compile_key="rmsnorm/bf16/N=64")
    store.write_jsonl(code.place / store.CODEGEN_FILE, [extra])
    assert run(["ledger", "freeze", str(code.ledgers)]) == 0
    store.write_jsonl(path, code.records())
    result, error = code.promote(source)
    assert result == 1 and "partial: 1 compile key has no record, such as rmsnorm/bf16/N=64" in error
    assert code.files().keys() - before.keys() == {"rmsnorm/baselines/gfx950/codegen_records.jsonl"}


def test_a_decision_on_machine_code_promotes_no_times(code: CodeDesk) -> None:
    source = code.compiled("run", code.records())
    store.write_jsonl(source / "head" / store.RESULTS_FILE, head().outcomes)
    assert code.promote(source)[0] == 0
    assert not (code.place / store.RESULTS_FILE).exists()


def test_machine_code_is_held_against_no_release_so_drift_is_not_accepted(code: CodeDesk) -> None:
    source = code.compiled("run", code.records())
    before = code.files()
    result, error = code.promote(source, "--accept-drift")
    assert result == 64 and "--accept-drift has no part in a decision on machine code" in error
    assert code.files() == before


def test_failing_records_and_a_mix_of_compilers_are_refused(code: CodeDesk) -> None:
    good = code.records()[0]
    broken = msgspec.structs.replace(good, compile_key="rmsnorm/bf16/N=64", status="failed", metrics=None, isa_sha=None)
    tools = msgspec.structs.replace(records.TOOLCHAIN, flydsl_version="0.5.0")
    mixed = msgspec.structs.replace(good, compile_key="rmsnorm/bf16/N=32", toolchain=tools)
    offer = CodeOffer(
        op_type="rmsnorm", shapes=LEDGER.shapes, keys={}, candidate="flydsl", records=(good, broken, mixed), commit=SHA
    )
    said = [fault.what for fault in code_faults(offer, {})]
    assert said == ["rmsnorm/bf16/N=64 did not compile: failed", "more than one toolchain compiled the records"]
