"""No input makes an importer or `gate validate` end in a traceback, or leaves half a ledger behind."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gate import cli
from gate.ledgers.sources import CHECKS, check
from gate.schemas.check import KNOWN
from gate.schemas.check import check as check_contract
from gate.schemas.recognise import recognise
from tests.ledgers.test_sglang_log import CONFIG, NEW_DECODE, NEW_PREFILL, OLD_PREFILL
from tests.ledgers.test_torch_trace import operator
from tests.validating import RECOGNISED, ledger_row, lines, result_row

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(
    [
        "rmsnorm",
        "gemm_a16w16",
        "rope",
        "mha",
        "N",
        "K",
        "TP_dim",
        "hq",
        "args",
        "dtype",
        "op_type",
        "traceEvents",
        "cat",
    ]
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
SEEDS = [
    lines(ledger_row(), ledger_row(notes="é")).encode(),
    lines(result_row(), result_row(provider="ck")).encode(),
    json.dumps({"m": {"rmsnorm": [{"N": 64}], "mha": [{"hq": 8, "hkv": 1, "dqk": 64, "dv": 64}]}}).encode(),
    json.dumps(CONFIG).encode(),
    json.dumps(
        {
            "traceEvents": [
                operator("aten::mm", [[4, 8], [8, 16]]),
                {"cat": "kernel", "dur": 1, "args": {"External id": 1}},
            ]
        }
    ).encode(),
    "\n".join([OLD_PREFILL, NEW_PREFILL, NEW_DECODE]).encode(),
    b"- {op_type: gemm, dtype: bf16, args: {M: 1, N: 2, K: 3}}\n",
    json.dumps([{"input_len": 8, "output_len": 8, "concurrency": 2}]).encode(),
    *(text.encode() for text in RECOGNISED.values()),
]


@st.composite
def damaged(draw):
    """A sound file with a few bytes changed, cut out or doubled."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.integers(0, 12))
        data[at : at + length] = draw(
            st.binary(max_size=8) | st.sampled_from([b"", b"NaN", b"1e999", b"[[", b'"', b"-"])
        )
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def validated(data):
    contract = recognise(data)
    if contract in KNOWN:
        return check_contract(contract, file="f", data=data).problems
    return check(contract, file="f", data=data)[1]


@FEW
@given(st.binary(max_size=200) | damaged() | DATA.map(lambda value: json.dumps(value).encode()))
@example(b'[{"\\n":null}]')
def test_validating_never_raises(data):
    for problem in validated(data):
        assert problem.what
        assert "\n" not in str(problem)


@FEW
@given(st.sampled_from(sorted(CHECKS)), damaged() | st.binary(max_size=100))
def test_every_source_check_takes_every_file(kind, data):
    for problem in check(kind, file="f", data=data)[1]:
        assert problem.what


@FEW
@given(st.sampled_from(sorted(KNOWN)), damaged() | st.binary(max_size=100))
def test_every_contract_check_takes_every_file(contract, data):
    for problem in check_contract(contract, file="f", data=data).problems:
        assert problem.what


IMPORTS = {
    "aiter-model-shapes": [],
    "sglang": ["--model", "Qwen3-4B", "--op", "gemm"],
    "atom": ["--model", "Qwen3-4B", "--op", "rmsnorm"],
    "manual": [],
}


@pytest.mark.parametrize("verb", sorted(IMPORTS))
@FEW
@given(data=damaged() | DATA.map(lambda value: json.dumps(value).encode()))
def test_an_import_ends_in_an_exit_code_and_a_whole_ledger(verb, data, tmp_path, capsys):
    source, ledger = tmp_path / "source", tmp_path / "ledger.jsonl"
    source.write_bytes(data)
    before = lines(ledger_row()).encode()
    ledger.write_bytes(before)
    code = cli.run(["ledger", "import", verb, str(source), "--into", str(ledger), *IMPORTS[verb]])
    error = capsys.readouterr().err
    assert code in (0, 2, 64)
    assert "Traceback" not in error
    assert (code == 0) == (error == "")
    assert check_contract("shape_ledger", file="f", data=ledger.read_bytes()).problems == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.jsonl", "source"]


@FEW
@given(data=damaged())
def test_a_damaged_config_is_a_line(data, tmp_path, capsys):
    config = tmp_path / "config.json"
    config.write_bytes(data)
    code = cli.run(["ledger", "import", "model-config", "--config", str(config), "--into", str(tmp_path / "l.jsonl")])
    assert code in (0, 2)
    assert "Traceback" not in capsys.readouterr().err


@FEW
@given(data=damaged())
def test_a_damaged_ledger_is_not_built_upon(data, tmp_path, capsys):
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_bytes(data)
    code = cli.run(["ledger", "import", "synthetic", "--op", "gemm", "--into", str(ledger)])
    if code == 0:
        assert check_contract("shape_ledger", file="f", data=ledger.read_bytes()).problems == ()
    else:
        assert code == 2
        assert ledger.read_bytes() == data
    capsys.readouterr()
