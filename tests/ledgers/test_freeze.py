"""Frozen folders: what the lock covers, and every way in which a folder can differ from it."""

import json
import shutil

import pytest

from gate import cli
from gate.commands.ledger_files import sources_on_disk
from gate.ledgers.freeze import LOCK_FILE
from gate.store import LEDGER_FILE, MATRIX_FILE, write_results
from tests.factory import make_outcome, make_shape


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("built")
    assert cli.run(["ledger", "build", "softmax", "vec_add", "--out", str(root)]) == 0
    return root


@pytest.fixture
def folder(built, tmp_path):
    shutil.copytree(built, tmp_path / "ledgers")
    return tmp_path / "ledgers"


def check(capsys, *folders):
    capsys.readouterr()
    code = cli.run(["ledger", "check", *map(str, folders)])
    return code, capsys.readouterr().err


def rewritten(path, change):
    lines = path.read_text().splitlines()
    path.write_text("\n".join(change(lines)) + "\n")


def refrozen(folder):
    """The lock as it would be if someone had frozen the edited file."""
    import hashlib

    path = folder / LOCK_FILE
    lock = json.loads(path.read_bytes())
    data = (folder / LEDGER_FILE).read_bytes()
    lock["files"][LEDGER_FILE]["sha256"] = hashlib.sha256(data).hexdigest()
    path.write_text(json.dumps(lock))


def test_what_was_built_is_as_frozen(folder, capsys):
    assert check(capsys, folder) == (0, "")
    assert check(capsys, folder / "softmax") == (0, "")


def test_the_lock_names_hashes_importers_and_sources(folder):
    lock = json.loads((folder / "softmax" / LOCK_FILE).read_bytes())
    assert lock["files"].keys() == {LEDGER_FILE, MATRIX_FILE}
    assert lock["importers"] == {"model_config": 1, "synthetic": 1}
    assert "models.toml" in lock["sources"]
    rows = (folder / "softmax" / LEDGER_FILE).read_text().count("\n")
    assert lock["files"][LEDGER_FILE]["rows"] == rows


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [lines[0].replace('"bf16"', '"f16"', 1), *lines[1:]], ":1: shape_id"),
        (lambda lines: [*lines, lines[0]], "is already on line 1"),
        (lambda lines: [*lines[:2], lines[2].replace("model_config", "imagined"), *lines[3:]], ":3: not a ledger row"),
        (lambda lines: [*lines[:-1], lines[-1][:40]], "not a ledger row"),
        (lambda lines: lines[:-1], None),
    ],
    ids=["wrong id", "duplicate", "unknown enum", "cut off", "row gone"],
)
def test_an_edited_ledger_is_found_by_its_hash_and_by_its_line(folder, capsys, change, words):
    rewritten(folder / "softmax" / LEDGER_FILE, change)
    code, error = check(capsys, folder)
    assert code == 2
    assert "its bytes are not those of the lock" in error
    refrozen(folder / "softmax")
    code, error = check(capsys, folder)
    if words is None:
        assert (code, error) == (0, "")
    else:
        assert code == 2
        assert words in error
        assert LEDGER_FILE in error


def test_an_edited_matrix_is_found(folder, capsys):
    path = folder / "softmax" / MATRIX_FILE
    path.write_text(path.read_text().replace("enabled: true", "enabled: false", 1))
    code, error = check(capsys, folder)
    assert code == 2
    assert f"{path}: its bytes are not those of the lock" in error


def test_files_that_are_missing_or_not_locked_are_found(folder, capsys):
    baselines = folder / "softmax" / "baselines" / "gfx950"
    write_results(baselines / "benchmark_results.jsonl", [make_outcome(make_shape())])
    (folder / "vec_add" / MATRIX_FILE).unlink()
    code, error = check(capsys, folder)
    assert code == 2
    assert "benchmark_results.jsonl: it is not in the lock" in error
    assert "the lock names it, but it is not there" in error


def test_freezing_again_locks_baselines_and_build_keeps_them(folder, capsys):
    baselines = folder / "softmax" / "baselines" / "gfx950"
    write_results(baselines / "benchmark_results.jsonl", [make_outcome(make_shape())])
    assert cli.run(["ledger", "freeze", str(folder)]) == 0
    assert check(capsys, folder) == (0, "")
    locked = json.loads((folder / "softmax" / LOCK_FILE).read_bytes())["files"]
    assert locked["baselines/gfx950/benchmark_results.jsonl"]["rows"] == 1
    assert cli.run(["ledger", "build", "softmax", "--out", str(folder)]) == 0
    assert json.loads((folder / "softmax" / LOCK_FILE).read_bytes())["files"] == locked


def test_a_ledger_with_a_wrong_row_is_not_frozen(folder, capsys):
    rewritten(folder / "softmax" / LEDGER_FILE, lambda lines: [*lines, lines[0]])
    before = (folder / "softmax" / LOCK_FILE).read_bytes()
    assert cli.run(["ledger", "freeze", str(folder / "softmax")]) == 2
    assert "is already on line 1" in capsys.readouterr().err
    assert (folder / "softmax" / LOCK_FILE).read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"op_type": 3, "files": {}}'])
def test_a_broken_lock_is_one_line(folder, capsys, text):
    (folder / "softmax" / LOCK_FILE).write_text(text)
    code, error = check(capsys, folder / "softmax")
    assert code == 2
    assert "not a ledger lock" in error
    assert error.count("\n") == 1


def test_a_folder_without_ledgers_is_one_line(tmp_path, capsys):
    code, error = check(capsys, tmp_path)
    assert code == 2
    assert "no ledger in it" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("verb", ["show", "check"])
def test_the_bare_name_of_a_frozen_op_is_told_how_to_be_named(tmp_path, capsys, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    for name, words in (
        ("rmsnorm", "'gate ledger show --op rmsnorm' shows it, and its folder is "),
        ("rmsnrom", "give a ledger file, an op's folder, or a folder that holds such folders"),
        ("./x/rmsnorm", "give a ledger file"),
    ):
        assert cli.run(["ledger", verb, name]) == 2
        error = capsys.readouterr().err
        assert "no ledger in it" in error and words in error and error.count("\n") == 1
    assert cli.run(["ledger", "show", "--op", "rmsnorm", "--limit", "0"]) == 0


def test_an_older_importer_or_another_fact_file_is_found(folder, capsys):
    path = folder / "softmax" / LOCK_FILE
    lock = json.loads(path.read_bytes())
    lock["importers"]["synthetic"] = 0
    lock["sources"]["models.toml"] = "0" * 64
    path.write_text(json.dumps(lock))
    code, error = check(capsys, folder)
    assert code == 2
    assert "importer version 0, now 1" in error
    assert "the ledger was derived from another models.toml" in error


def test_show_counts_and_filters(folder, capsys):
    capsys.readouterr()
    assert cli.run(["ledger", "show", str(folder), "--json", "--op", "softmax", "--stage", "synthetic"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["op"] == {"softmax": found["rows"]}
    assert found["source"] == {"synthetic": found["rows"]}
    assert cli.run(["ledger", "show", str(folder / "softmax" / LEDGER_FILE), "--model", "mixtral", "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "Mixtral 8x7B" in out
    assert "more; --limit shows more of them" in out


def test_show_reads_names_as_they_are(tmp_path, capsys):
    from gate.store import write_jsonl

    write_jsonl(tmp_path / "l.jsonl", [make_shape(model="[bold]x[/bold]\x1b[31m")])
    assert cli.run(["ledger", "show", str(tmp_path / "l.jsonl")]) == 0
    out = capsys.readouterr().out
    assert "[bold]x[/bold]" in out
    assert "\x1b[31m" not in out


def test_diff_tells_what_an_import_would_change(folder, tmp_path, capsys):
    old = folder / "softmax" / LEDGER_FILE
    new = tmp_path / "new.jsonl"
    lines = old.read_text().splitlines()
    new.write_text("\n".join(lines[1:]) + "\n")
    capsys.readouterr()
    assert cli.run(["ledger", "diff", str(old), str(new)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("- sha1:")
    assert f"0 added, 1 removed, 0 changed, 0 under a new id, {len(lines) - 1} the same" in out
    assert cli.run(["ledger", "diff", str(old), str(new), "--exit-code"]) == 1
    assert cli.run(["ledger", "diff", str(old), str(old), "--exit-code"]) == 0


def test_build_of_an_unknown_op_is_wrong_usage(tmp_path, capsys):
    assert cli.run(["ledger", "build", "conv9d", "--out", str(tmp_path)]) == 64
    assert cli.run(["ledger", "build", "--out", str(tmp_path)]) == 64
    assert list(tmp_path.iterdir()) == []


def test_shapes_under_several_ids_are_counted(folder, capsys):
    from gate.store import write_jsonl

    twins = [make_shape(op_type="softmax", stage=stage, kind="manual") for stage in ("decode", "prefill")]
    write_jsonl(folder / "softmax" / LEDGER_FILE, twins)
    assert cli.run(["ledger", "freeze", str(folder / "softmax")]) == 0
    capsys.readouterr()
    assert cli.run(["ledger", "check", str(folder)]) == 0
    assert "softmax: as frozen, 1 shape under several ids" in capsys.readouterr().out


def test_a_lock_hashes_only_what_concerns_its_op():
    own = sources_on_disk("quant")
    assert set(own) == {"models.toml", "traffic.toml", "frozen.toml[quant]", "matrices.toml[quant]"}
    assert b"rmsnorm" not in own["frozen.toml[quant]"] and b"quant" in own["frozen.toml[quant]"]
    assert set(sources_on_disk("nonesuch")) == {"models.toml", "traffic.toml", "frozen.toml[nonesuch]"}
