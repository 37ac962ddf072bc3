"""The codegen verbs from the command line: what they write, print and return."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.codegen.diff import compare
from gate.commands.codegen_attribute import cases_of
from gate.commands.codegen_bisect import asked_for
from gate.commands.codegen_inputs import kernels_of
from gate.commands.codegen_show import view_of
from gate.commands.compile_keys import matching
from gate.model.codegen import CodegenRecord, CodegenThresholds
from tests.codegen.records import TOOLCHAIN, broken, folder, ledger, record

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize(
    ("head", "code", "words"),
    [
        (record(), 0, "1 kernel: 1 same"),
        (record(isa_sha="c" * 16), 0, "1 info"),
        (record(isa_sha="c" * 16, instructions=220), 0, "1 warn"),
        (record(isa_sha="c" * 16, vgpr_spills=3), 1, "1 fail"),
        (broken(), 1, "no_longer_compiles"),
    ],
)
def test_diff_says_what_changed_and_its_exit_code_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: CodegenRecord, code: int, words: str
) -> None:
    base = folder(tmp_path / "base", record())
    new = folder(tmp_path / "head", head)
    assert run(["codegen", "diff", base, new]) == code
    text = capsys.readouterr().out
    assert (
        words.replace("no_longer_compiles", "compiled in base and not in head") in text
        and "nothing about speed" in text
    )
    assert run(["codegen", "diff", base, new, "--json"]) == code
    assert sum(json.loads(capsys.readouterr().out)["counts"].values()) == 1


def test_what_was_not_compared_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = folder(tmp_path / "base", record(), record("softmax"))
    assert run(["codegen", "diff", base, folder(tmp_path / "less", record())]) == 2
    assert "missing       softmax/bf16/x=1\n" in capsys.readouterr().out
    failing = folder(tmp_path / "failing", broken())
    refused = folder(tmp_path / "refused", broken(status="unsupported"))
    assert run(["codegen", "diff", failing, failing]) == 2
    assert run(["codegen", "diff", refused, refused]) == 0
    policy = tmp_path / "policy.toml"
    policy.write_text("[coverage]\naccept_still_failing = true\n")
    assert run(["codegen", "diff", failing, failing, "--policy", str(policy)]) == 0


def test_the_policy_moves_the_thresholds(tmp_path: Path) -> None:
    base = folder(tmp_path / "base", record("rmsnorm", waves_per_simd=8))
    head = folder(tmp_path / "head", record("rmsnorm", isa_sha="c" * 16, waves_per_simd=7))
    assert run(["codegen", "diff", base, head]) == 1
    policy = tmp_path / "policy.toml"
    policy.write_text('[codegen]\nnot_occupancy_bound = ["rmsnorm"]\n')
    assert run(["codegen", "diff", base, head, "--policy", str(policy)]) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [({"arch": "gfx942"}, "different targets: gfx942, gfx950"), ({"kernels": "flydsl"}, "FlyDSL's own kernels")],
)
def test_sides_that_cannot_be_compared_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], words: str
) -> None:
    other = msgspec.structs.replace(record(), toolchain=msgspec.structs.replace(TOOLCHAIN, **change))
    other = msgspec.structs.replace(other, arch=change.get("arch", "gfx950"))
    assert run(["codegen", "diff", folder(tmp_path / "a", record()), folder(tmp_path / "b", other)]) == 2
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error


def test_triton_baselines_lie_beside_the_kernels_of_a_checkout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_checkout = msgspec.structs.replace(TOOLCHAIN, kernels="flydsl")
    of_triton = msgspec.structs.replace(TOOLCHAIN, kernels="aiter_triton", triton_version="3.9.0")
    rows = [
        msgspec.structs.replace(record(), toolchain=of_checkout),
        msgspec.structs.replace(record("softmax"), toolchain=of_triton),
    ]
    assert run(["codegen", "diff", folder(tmp_path / "a", *rows), folder(tmp_path / "b", *rows)]) == 0
    assert "2 kernels: 2 same" in capsys.readouterr().out


def test_a_folder_without_records_and_a_repeated_record_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = folder(tmp_path / "good", record())
    assert run(["codegen", "diff", str(tmp_path / "absent"), good]) == 2
    assert "no codegen_records.jsonl for gfx950" in capsys.readouterr().err
    store.write_jsonl(tmp_path / "twice.jsonl", [record(), record()])
    assert run(["codegen", "diff", str(tmp_path / "twice.jsonl"), good]) == 2
    assert "twice" in capsys.readouterr().err


def test_a_baseline_in_ledgers_is_found_by_its_arch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.write_jsonl(tmp_path / "led" / "gemm" / "baselines" / "gfx950" / store.CODEGEN_FILE, [record()])
    head = folder(tmp_path / "head", record())
    assert run(["codegen", "diff", str(tmp_path / "led"), head]) == 0
    assert "1 kernel: 1 same" in capsys.readouterr().out
    assert run(["codegen", "diff", str(tmp_path / "led"), head, "--arch", "gfx942"]) == 2
    assert "no codegen_records.jsonl for gfx942" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["record"], "exactly one of --out and --as-baseline"),
        (["record", "--out", "x", "--as-baseline", "y"], "exactly one"),
        (["record", "--out", "x", "--kernels", "a", "--flydsl-checkout", "b"], "exclude each other"),
        (["record", "--out", "x", "--op", "nothing_such"], "no op nothing_such"),
        (["attribute", "--base-wheel", "1", "--head-wheel", "2", "--base-checkout", "x"], "name both"),
        (["bisect", "--wheels", "0.4.0"], "two versions or more"),
        (["bisect", "--wheels", "0.4.0,0.4.1", "--op", "nothing_such"], "no case"),
    ],
)
def test_wrong_usage_is_one_line_and_its_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["codegen", *arguments]) == 64
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["codegen", "record", "--out", "x", "--flydsl-checkout", str(tmp_path)]) == 2
    assert "no kernels folder" in capsys.readouterr().err


def test_show_needs_one_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = folder(tmp_path / "head", record("gemm"), record("softmax"))
    assert run(["codegen", "show", "bf16", "--head", head]) == 64
    assert "bf16 names 2 kernels: gemm/bf16/x=1, softmax/bf16/x=1" in capsys.readouterr().err
    assert run(["codegen", "show", "absent", "--head", head]) == 64
    assert run(["codegen", "show", "softmax", "--head", head]) == 0
    text = capsys.readouterr().out
    again = "gate codegen record --wheel 0.4.0 --op softmax --out records brings it"
    assert "softmax/bf16/x=1" in text and f"head: no assembly here; {again}" in text


def test_a_part_of_a_compile_key_names_whole_fields_unless_a_star_says_otherwise() -> None:
    keys = [
        "rmsnorm/bf16/N=4",
        "rmsnorm/bf16/N=4096",
        "rmsnorm/bf16/N=4097,vec=8",
        "gemm/bf16/K=4,N=4",
        "moe_gemm/f32/BN=4",
    ]
    for part, found in (
        ("N=4", ["gemm/bf16/K=4,N=4", "rmsnorm/bf16/N=4"]),
        ("rmsnorm/bf16/N=4", ["rmsnorm/bf16/N=4"]),
        ("gemm", ["gemm/bf16/K=4,N=4"]),
        ("N=409*", ["rmsnorm/bf16/N=4096", "rmsnorm/bf16/N=4097,vec=8"]),
        ("N=*,vec=8", ["rmsnorm/bf16/N=4097,vec=8"]),
        ("rmsnorm/bf16/", keys[:3]),
        ("N=40", []),
        ("N=.", []),
        ("", []),
    ):
        assert matching(part, keys) == found, part


@pytest.mark.parametrize("verb", ["show", "bisect"])
def test_a_value_that_only_begins_others_is_refused_with_those(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    made = msgspec.structs.replace(record("rmsnorm"), compile_key="rmsnorm/bf16/N=4096")
    argv = {
        "show": ["show", "N=40", "--head", folder(tmp_path / "head", made)],
        "bisect": ["bisect", "--wheels", "0.4.0,0.4.1", "--op", "rmsnorm", "--key", "N=40"],
    }[verb]
    assert run(["codegen", *argv]) == 64
    error = capsys.readouterr().err
    assert "no compile key has N=40 as whole fields; it is part of rmsnorm/bf16/N=4096" in error
    assert "write N=40* for all that begin so" in error and error.count("\n") == 1


def test_each_key_of_a_bisection_takes_its_value_alone() -> None:
    cases = cases_of(kernels_of(None, None), ("rmsnorm",))
    (one,) = asked_for(cases, ["N=4097"])
    assert one.compile_key == "rmsnorm/bf16/N=4097" and asked_for(cases, []) == cases
    some = [case.compile_key for case in asked_for(cases, ["N=409*"])]
    assert {"rmsnorm/bf16/N=4096", "rmsnorm/bf16/N=4097"} <= set(some)


def test_the_command_that_brings_the_assembly_is_of_the_records_target_and_quoted() -> None:
    other = msgspec.structs.replace(record(), arch="gfx942", op_type="a b")
    words = view_of(compare(None, other, CodegenThresholds()), ()).loop_words
    assert words.endswith("; gate codegen record --wheel 0.4.0 --op 'a b' --arch gfx942 --out records brings it")


def test_the_page_escapes_and_loads_nothing(tmp_path: Path) -> None:
    hostile = msgspec.structs.replace(record(), kernel="<script>alert(1)</script>")
    page = tmp_path / "page.html"
    base, head = folder(tmp_path / "base", record()), folder(tmp_path / "head", hostile)
    assert run(["codegen", "show", "gemm", "--base", base, "--head", head, "--html", str(page)]) == 0
    text = page.read_text()
    assert "&lt;script&gt;" in text and "<script" not in text and "http" not in text


def test_pages_of_all_that_changed_and_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = folder(tmp_path / "base", record(), record("softmax"))
    head = folder(tmp_path / "head", record(isa_sha="c" * 16), record("softmax"), record("rmsnorm"))
    pages = tmp_path / "pages"
    assert run(["codegen", "show", "--base", base, "--head", head, "--pages", str(pages)]) == 0
    index = json.loads((pages / "index.json").read_text())
    assert set(index) == {"gemm/bf16/x=1", "rmsnorm/bf16/x=1"}
    assert "gemm/bf16/x=1" in (pages / index["gemm/bf16/x=1"]).read_text()
    assert run(["codegen", "show", "--head", head]) == 64
    assert "exactly one of KEY and --pages" in capsys.readouterr().err


def test_triage_writes_the_shapes_that_must_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("rmsnorm", {"M": 1, "N": 512}), ("rmsnorm", {"M": 2, "N": 512}), ("rmsnorm", {"M": 1, "N": 1024})]
    ledgers = ledger(tmp_path / "led", *rows)
    keys = ["rmsnorm/bf16/N=512", "rmsnorm/bf16/N=1024"]
    base = [msgspec.structs.replace(record("rmsnorm"), compile_key=key) for key in keys]
    head = [base[0], msgspec.structs.replace(base[1], isa_sha="c" * 16)]
    arguments = [folder(tmp_path / "base", *base), folder(tmp_path / "head", *head), "--ledgers", ledgers]
    out = tmp_path / "out"
    assert run(["codegen", "triage", *arguments, "--out", str(out), "--seconds-per-shape", "60"]) == 0
    assert "3 shapes: 1 run, 0 sample, 2 skip, 2 of 3 GPU minutes saved" in capsys.readouterr().out
    lines = [json.loads(line) for line in (out / "triage.jsonl").read_text().splitlines()]
    run_ids = [line["shape_id"] for line in lines if line["action"] == "run"]
    assert (out / "shapes_to_run.txt").read_text().split() == run_ids and len(run_ids) == 1
