"""What an import refuses: names that are paths, things no kernel has, and an import that would only take rows away."""

import json

import pytest

from gate import cli
from gate.ledgers.known import OPS
from gate.ledgers.positions import entry_lines

GOOD = {"op_type": "rmsnorm", "dtype": "bf16", "args": {"M": 1, "N": 64}}
SHAPES = {"A model": {"rmsnorm": [{"N": 64 * n} for n in range(1, 9)], "gemm_a16w16": [{"N": 64, "K": 64}]}}


def imported(*arguments):
    return cli.run(["ledger", "import", *map(str, arguments)])


def written(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "op", ["../../x", "/abs", "a/b", "..", "Rmsnorm", "rms norm", "rmsnorm\n", "", "a" * 65, "ünï", "nosuch"]
)
def test_an_op_that_is_no_plain_known_name_is_refused_and_nothing_is_written(tmp_path, capsys, op):
    given = written(tmp_path / "given", "[\n" + json.dumps({**GOOD, "op_type": op}) + "]")
    assert imported("manual", given, "--ledgers", tmp_path / "deep" / "ledgers") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"gate: {given}:2: shape 0: ")
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["given"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"args": {"M": -1, "N": 64}}, "M is '-1'"),
        ({"args": {"M": 1, "N": 0}}, "N is '0'"),
        ({"args": {"M": 1.5, "N": 1}}, "M is '1.5'"),
        ({"args": {"M": True, "N": 1}}, "M is 'True'"),
        ({"args": {"M": "12", "N": 1}}, "M is '12'"),
        ({"args": {"M": None, "N": 1}}, "M is 'None'"),
        ({"args": {"M": 1, "N": 2**40 + 1}}, "N is '1099511627777'"),
        ({"args": {"M": 1, "N": 1, "scale": 1e300}}, "scale is 1e+300"),
        ({"dtype": "bfloat9"}, "'bfloat9' is not a dtype"),
    ],
)
def test_what_no_kernel_has_is_refused_with_its_line(tmp_path, capsys, change, words):
    given = written(tmp_path / "given", "[" + json.dumps(GOOD) + ",\n\n" + json.dumps({**GOOD, **change}) + "]")
    assert imported("manual", given, "--into", tmp_path / "ledger") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{given}:3: shape 1: {words}")
    assert len((tmp_path / "ledger").read_text().splitlines()) == 1


def test_an_integral_float_is_a_size(tmp_path):
    given = written(tmp_path / "given", [{**GOOD, "args": {"M": 8192.0, "N": 1}}])
    assert imported("manual", given, "--into", tmp_path / "ledger") == 0
    assert json.loads((tmp_path / "ledger").read_text())["args"] == {"M": 8192, "N": 1}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('[1,\n2,\n\n"a\\"]"]', [1, 2, 4]),
        ('\n{"x": 1,\n "shapes": [\n{"a": [1,\n2]}, 3]}', [4, 5]),
        ('[1,\n{"cut', [1, 2]),
        ("shapes:\n- 1\n- a: 2\n  b: 3\n- 4\n", [2, 3, 5]),
        ("- 1\n-\n  a: 1\n", [1, 3]),
        ("words", []),
        ("[]", []),
        ("a: *b\n", []),
    ],
)
def test_the_lines_of_entries(text, lines):
    assert entry_lines(text.encode(), key="shapes") == lines


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.jsonl"
    given = written(tmp_path / "shapes.json", SHAPES)
    assert imported("aiter-model-shapes", given, "--into", path) == 0
    return path


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        (SHAPES, ("--kernel", "rmsnrom"), 64),
        (SHAPES, ("--kernel", "rope"), 2),
        (SHAPES, ("--m-values", ""), 64),
        (SHAPES, ("--batches", ","), 64),
        ({}, (), 2),
        ([], (), 2),
        ({"A model": {}}, (), 2),
        ({"A model": {"rmsnorm": []}}, (), 2),
        ({"A model": {"no_kernel": [{"N": 1}]}}, (), 2),
    ],
)
def test_an_import_of_nothing_leaves_the_ledger_as_it_was(tmp_path, capsys, ledger, content, options, code):
    before = ledger.read_bytes()
    given = written(tmp_path / "other.json", content)
    capsys.readouterr()
    assert imported("aiter-model-shapes", given, "--into", ledger, *options) == code
    assert capsys.readouterr().err.count("\n") == 1
    assert ledger.read_bytes() == before


@pytest.mark.parametrize("content", ["[]", "shapes: []\n", "{}"])
def test_an_empty_list_leaves_hand_written_rows(tmp_path, content):
    path = tmp_path / "ledger"
    assert imported("manual", written(tmp_path / "a", [GOOD]), "--into", path) == 0
    before = path.read_bytes()
    assert imported("manual", written(tmp_path / "b", content), "--into", path) == 2
    assert imported("atom", tmp_path / "b", "--into", path) == 2
    assert path.read_bytes() == before


def test_model_dimensions_need_a_step(tmp_path, capsys):
    options = ("--model", "Llama3 8B", "--decode", "", "--prefill", "", "--into", tmp_path / "ledger")
    assert imported("model-config", *options) == 64
    assert capsys.readouterr().err == "gate: neither --decode nor --prefill names a size\n"


def test_a_dtype_option_is_one_of_the_list(tmp_path, capsys):
    options = ("--model", "Llama3 8B", "--dtype", "bfloat9", "--into", tmp_path / "ledger")
    assert imported("model-config", *options) == 64
    assert "Invalid value for '--dtype': 'bfloat9' is not one of 'bf16', " in capsys.readouterr().err
    assert not (tmp_path / "ledger").exists()


def test_many_rows_that_go_are_warned_of(tmp_path, capsys, ledger):
    capsys.readouterr()
    assert imported("aiter-model-shapes", tmp_path / "shapes.json", "--kernel", "gemm_a16w16", "--into", ledger) == 0
    error = capsys.readouterr().err
    assert "warning: 40 rows of earlier imports of this source were removed, 0 added" in error
    assert imported("aiter-model-shapes", tmp_path / "shapes.json", "--into", ledger) == 0
    assert capsys.readouterr().err == ""


def test_a_damaged_ledger_of_one_op_keeps_those_of_the_others(tmp_path):
    given = written(tmp_path / "shapes.json", SHAPES)
    root = tmp_path / "ledgers"
    assert imported("aiter-model-shapes", given, "--ledgers", root) == 0
    written(root / "rmsnorm" / "shape_ledger.jsonl", "{}\n")
    before = (root / "gemm" / "shape_ledger.jsonl").read_bytes()
    assert imported("aiter-model-shapes", given, "--m-values", "3", "--ledgers", root) == 2
    assert (root / "gemm" / "shape_ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_only_utf8_is_read_with_or_without_its_mark(tmp_path, capsys, encoding):
    given = tmp_path / "shapes.json"
    given.write_bytes(json.dumps(SHAPES).encode(encoding))
    code = imported("aiter-model-shapes", given, "--into", tmp_path / "ledger")
    error = capsys.readouterr().err
    if encoding == "utf-8-sig":
        assert (code, error) == (0, "")
    else:
        assert code == 2
        assert "UTF-8" in error and "YAML" not in error


def test_every_op_of_the_frozen_ledgers_is_known():
    from gate.resources import frozen_ledgers_dir

    assert {path.name for path in frozen_ledgers_dir().iterdir() if path.is_dir()} <= OPS
