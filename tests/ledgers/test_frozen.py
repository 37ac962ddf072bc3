"""The project's own frozen ledgers: built byte for byte from the facts, whole, and without repetition."""

import json
from collections import Counter

import pytest

from gate import cli
from gate.ledgers import matrices, recipe
from gate.ledgers.draft import physical
from gate.ledgers.facts import packaged_models
from gate.model.matrix import PROVIDERS
from gate.resources import frozen_ledgers_dir
from gate.store import LEDGER_FILE, MATRIX_FILE, read_ledger, read_matrix

OPS = recipe.packaged_recipe().ops
NEEDED = {
    "batched_gemm",
    "blockscale_preshuffle_gemm",
    "flash_attn",
    "fp8_gemm_rowscale",
    "fused_add_rmsnorm",
    "fused_rope_cache",
    "gemm",
    "layernorm",
    "layernorm_dynamicquant",
    "layernorm_fused_add",
    "layernorm_fused_add_dynamicquant",
    "layernorm_fused_add_smoothquant",
    "layernorm_smoothquant",
    "mla_decode",
    "moe_blockscale",
    "moe_gemm",
    "moe_reduce",
    "moe_sorting",
    "pa_decode",
    "preshuffle_gemm",
    "quant",
    "rmsnorm",
    "rmsnorm_bwd",
    "rmsnorm_dynamicquant",
    "rmsnorm_fused_add_dynamicquant",
    "rmsnorm_fused_add_smoothquant",
    "rmsnorm_smoothquant",
    "softmax",
    "topk_gating_softmax",
    "vec_add",
}
# Ops whose traffic was recorded, so that their rows have shares of it.
WITH_TRAFFIC = {"batched_gemm", "fused_rope_cache", "gemm", "moe_blockscale", "moe_reduce", "rmsnorm", "vec_add"}


@pytest.fixture(scope="module")
def shapes():
    root = frozen_ledgers_dir()
    return {op: read_ledger(root / op / LEDGER_FILE).shapes for op in OPS}


def test_every_op_has_a_recipe():
    assert set(OPS) == NEEDED


def test_one_command_builds_the_same_bytes(tmp_path):
    assert cli.run(["ledger", "build", "--all", "--out", str(tmp_path)]) == 0
    for op in OPS:
        for name in (LEDGER_FILE, MATRIX_FILE):
            assert (tmp_path / op / name).read_bytes() == (frozen_ledgers_dir() / op / name).read_bytes(), (op, name)


def test_the_check_is_clean(capsys):
    assert cli.run(["ledger", "check"]) == 0
    assert capsys.readouterr().err == ""


def test_every_file_is_valid(capsys):
    assert cli.run(["validate", *(str(frozen_ledgers_dir() / op) for op in OPS)]) == 0


def test_there_are_at_least_800_distinct_shapes(shapes):
    distinct = {physical(shape) for of_op in shapes.values() for shape in of_op}
    assert len(distinct) >= 800


def test_no_physical_shape_stands_under_two_ids(shapes):
    counts = Counter(physical(shape) for of_op in shapes.values() for shape in of_op)
    assert [count for count in counts.values() if count > 1] == []


def test_at_least_twelve_models_are_in_them(shapes):
    names = {name for of_op in shapes.values() for shape in of_op for name in shape.model.split("|")}
    assert len(names & packaged_models().keys()) >= 12


def test_traced_rows_are_weighted_and_no_other(shapes):
    for of_op in shapes.values():
        for shape in of_op:
            assert (shape.weight.value is not None) == (shape.source.kind == "sglang_trace")
    assert sum(shape.weight.value is not None for of_op in shapes.values() for shape in of_op) > 100


@pytest.mark.parametrize("op", OPS)
def test_shares_of_traffic_add_up(shapes, op):
    weights = [shape.weight.traffic_weight for shape in shapes[op] if shape.weight.traffic_weight is not None]
    assert bool(weights) == (op in WITH_TRAFFIC)
    assert sum(weights) == pytest.approx(1 if op in WITH_TRAFFIC else 0, abs=1e-3)


@pytest.mark.parametrize("op", OPS)
def test_a_matrix_names_every_provider_with_a_reason_or_an_entry(op):
    matrix = read_matrix(frozen_ledgers_dir() / op / MATRIX_FILE)
    assert tuple(matrix.providers) == PROVIDERS
    for name, entry in matrix.providers.items():
        assert entry.entrypoint == f"gate.replay.providers.{name}:{op}"
        assert entry.enabled == (entry.skip_reason is None)
    assert matrix.candidate_provider == "flydsl" and "flydsl" not in matrix.baselines
    assert matrix.baselines == matrices.baselines(op)
    assert "pytorch" in matrix.baselines


@pytest.mark.parametrize("op", OPS)
def test_each_op_has_shapes_of_models_and_probes(shapes, op):
    stages = Counter(shape.stage for shape in shapes[op])
    assert stages["synthetic"] >= 7
    assert sum(count for stage, count in stages.items() if stage != "synthetic") >= 10
    assert all(shape.baselines_available == matrices.baselines(op) for shape in shapes[op])


def test_nothing_in_them_tells_where_they_were_built():
    paths = list(frozen_ledgers_dir().rglob(LEDGER_FILE))
    assert len(paths) == len(OPS)
    for path in paths:
        for line in path.open():
            assert json.loads(line)["source"].get("file") in (None, "models.toml", "traffic.toml")
