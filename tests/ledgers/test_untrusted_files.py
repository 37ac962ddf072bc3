"""Files of any kind and text of any kind: nothing hangs, nothing is taken for more than it is, nothing steers a log."""

import json
import os
import pty
import re
import socket

import pytest

from gate import cli, store
from gate.ledgers.matrices import matrix_yaml
from gate.model.problem import UnusableInput
from gate.model.text import cell, json_text, one_line
from tests.factory import make_shape


@pytest.fixture(params=["pipe", "socket", "device", "folder"])
def no_file(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if request.param == "pipe":
        os.mkfifo("given")
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("given")
    elif request.param == "folder":
        (tmp_path / "given" / "inner").mkdir(parents=True)
    return "/dev/zero" if request.param == "device" else "given"


@pytest.mark.parametrize(
    "verb",
    [
        ("validate",),
        ("ledger", "show"),
        ("ledger", "check"),
        ("ledger", "freeze"),
        ("ledger", "import", "manual", "--into", "out"),
        ("ledger", "import", "atom", "--into", "out"),
        ("ledger", "import", "sglang", "--into", "out"),
        ("ledger", "import", "aiter-model-shapes", "--into", "out"),
        ("ledger", "import", "model-config", "--into", "out", "--config"),
    ],
)
def test_what_is_no_regular_file_is_one_line(no_file, capsys, verb):
    assert cli.run([*verb, no_file]) == 2
    assert capsys.readouterr().err.startswith(("gate: ", no_file))


@pytest.mark.parametrize("read", [store.read_bytes, store.read_start, lambda path: list(store.stream_lines(path))])
def test_the_store_reads_regular_files_alone(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnusableInput, match="not a file but a pipe"):
        read(tmp_path / "pipe")
    with pytest.raises(UnusableInput, match="not a file but a folder"):
        read(tmp_path)


@pytest.mark.parametrize("read", [store.read_yaml, store.read_toml])
def test_a_document_has_a_size(tmp_path, read):
    path = tmp_path / "given"
    path.touch()
    os.truncate(path, store.DOCUMENT_BYTES + 1)
    with pytest.raises(UnusableInput, match="64 MiB"):
        read(path)


MATRIX = matrix_yaml("softmax")


@pytest.mark.parametrize(
    ("data", "words", "line"),
    [
        (MATRIX.replace("dtype: bf16", "dtype: " + "9" * 5000).encode(), "digits", 4),
        (MATRIX.encode() + b"kernel: again\n", "the key 'kernel' stands twice", MATRIX.count("\n") + 1),
        (MATRIX.replace("enabled:", "enabled: true\n    enabled:", 1).encode(), "the key 'enabled' stands twice", None),
        (MATRIX.encode("utf-16"), "UTF-8", None),
        (MATRIX.encode("utf-16-le"), "UTF-8", None),
        (MATRIX.encode() + b"notes: \xff\n", "not UTF-8 at byte", None),
        (MATRIX.encode() + b"day: 2026-13-45\n", "not valid YAML", MATRIX.count("\n") + 1),
        (MATRIX.encode() + b"a: &x [1]\nb: *x\n", "aliases are not read", MATRIX.count("\n") + 2),
        (MATRIX.encode() + b"a: " + b"[" * 5000, "nested too deeply", None),
    ],
)
def test_yaml_is_strict_for_the_judge_and_for_validate_alike(tmp_path, capsys, data, words, line):
    path = tmp_path / "baseline_matrix.yaml"
    path.write_bytes(data)
    with pytest.raises(UnusableInput, match=words) as caught:
        store.read_matrix(path)
    assert line is None or caught.value.problems[0].line == line
    assert cli.run(["validate", str(path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", ["a = " + "9" * 5000 + "\n", "a = " + "[" * 5000])
def test_toml_that_python_cannot_hold_is_one_line(tmp_path, capsys, text):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(UnusableInput):
        store.read_toml(path)
    assert cli.run(["validate", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


STEERING = ["\n", "\r", "\x1b[31m", "\x85", "\u2028", "\u2029", "\u202e", "\x9b", "\x7f", "\0", "\ud800"]


@pytest.mark.parametrize("char", STEERING)
def test_one_line_is_one_harmless_line(char):
    told = one_line(f"a{char}::error::b")
    assert len(told.splitlines()) == 1
    assert told.isprintable()
    assert json.loads(json_text([char])) == [char]
    assert json_text([char]).replace("\n", "").isprintable()


@pytest.mark.parametrize("text", ["::error::x", "  ::error::x", "\u3000::add-mask::x", "x ##[error]y"])
def test_nothing_told_is_a_workflow_command(text):
    told = one_line(text)
    assert not told.lstrip().startswith("::")
    assert "##[" not in told + json_text([text])
    assert "::" not in cell(text)


def test_ordinary_text_stays_as_it_is():
    for text in ("a/b.jsonl:3: aten::mm is größer", "模型 [x] <y> & z"):
        assert one_line(text) == text


@pytest.mark.parametrize("name", ["::error::x", "a\n::error::x", "a\u2028b", "a\x1b[31mb", "a\x85b"])
def test_a_file_name_cannot_steer_a_log(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("{}")
    for argv in (
        ["validate", name],
        ["validate", "--json", name],
        ["validate", "."],
        ["ledger", "show", name],
        ["ledger", "diff", name, name],
        ["ledger", "check", name],
        ["ledger", "import", "manual", name, "--into", "x"],
        ["ledger", "import", "manual", f"{name}{name}", "--into", "x"],
        ["ledger", name],
        ["ledger", "show", "--limit", name],
        [name],
    ):
        assert cli.run(argv) in (2, 64)
        out, err = capsys.readouterr()
        assert harmless(out + err), argv


def harmless(text):
    return all(line.isprintable() and not line.lstrip().startswith("::") for line in text.split("\n"))


def test_ledger_text_cannot_steer_a_log(tmp_path, capsys):
    hostile = "m" * 300 + " ::error::x\n::warning::y\x1b[2J\u2028"
    for name, notes in (("old", "a"), ("new", "b")):
        shapes = [
            make_shape(model=hostile, args={"M": 1, "N": 8, "::error::x\n": "::error::\u2029y"}, notes=notes),
            make_shape(model=f"::{name}{hostile}", args={"M": 1, "N": 9, "out": hostile}),
        ]
        store.write_jsonl(tmp_path / name, shapes)
    for argv in (["show", "old"], ["show", "--json", "old"], ["diff", "old", "new"], ["diff", "--json", "old", "new"]):
        paths = [str(tmp_path / word) if word in ("old", "new") else word for word in argv]
        assert cli.run(["ledger", *paths]) == 0
        assert harmless(capsys.readouterr().out), argv


@pytest.mark.parametrize("width", [1, 20, 60, 83, 84, 200])
def test_a_narrow_terminal_folds_between_words(monkeypatch, width):
    from gate.commands.ledger_table import LEAST_WIDTH, console, show_rows

    monkeypatch.setenv("COLUMNS", str(width))
    reader, writer = pty.openpty()
    shapes = [make_shape(args={"M": 1, "N": 8192})]
    with os.fdopen(writer, "w") as target:
        show_rows(shapes, console(target))
        target.flush()
        text = os.read(reader, 1 << 16).decode()
    os.close(reader)
    told = [re.sub(r"\x1b\[\d*m", "", line).strip() for line in text.splitlines()]
    assert len(told) <= 14
    assert any("rmsnorm" in line for line in told)
    assert any("N=8192" in line for line in told)
    assert max(map(len, told)) <= max(width, LEAST_WIDTH)
