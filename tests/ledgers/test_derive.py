"""Shapes derived from model dimensions, against dimensions that the models' makers and AITER publish."""

import pytest

from gate.ledgers.facts import Model, packaged_models, read_models
from gate.ledgers.ops import DERIVE, usual_dtype
from gate.ledgers.ops.gemms import attention_weights, dense_weights
from gate.ledgers.ops.point import Point, shard
from gate.model.problem import UnusableInput

MODELS = packaged_models()
WANTED = (
    "Llama3 8B",
    "Llama3 70B",
    "Llama3 405B",
    "Llama4 Maverick",
    "Qwen3-32B",
    "Qwen3-235B-A22B",
    "DeepSeek-R1",
    "Kimi-K2 Thinking",
    "GPT-OSS 120B",
    "Mixtral 8x7B",
)


def cells(op, model, dtype="bf16", **point):
    return [dict(cell.args) for cell in DERIVE[op](MODELS[model], Point(**point), dtype)]


def test_the_models_that_matter_are_there():
    assert set(WANTED) <= MODELS.keys()
    assert len(MODELS) >= 12


@pytest.mark.parametrize("name", sorted(MODELS))
def test_dimensions_agree_with_each_other(name):
    model = MODELS[name]
    assert model.heads % model.kv_heads == 0
    if model.mla is not None:
        assert model.head_dim == model.mla.nope + model.mla.rope
    assert model.intermediate is not None or model.moe is not None


# (model, N, K) of whole weights as AITER's model benchmarking tool lists them.
@pytest.mark.parametrize(
    ("model", "n", "k"),
    [
        ("Llama3 405B", 106496, 16384),
        ("Llama3 405B", 16384, 53248),
        ("Llama3 405B", 18432, 16384),
        ("Llama3 70B", 57344, 8192),
        ("Llama3 70B", 10240, 8192),
        ("Llama3 8B", 28672, 4096),
        ("Llama3 8B", 4096, 14336),
        ("GPT-OSS 120B", 5120, 2880),
        ("DeepSeek-R1", 36864, 7168),
        ("DeepSeek-R1", 7168, 18432),
        ("DeepSeek-R1", 2112, 7168),
        ("Llama4 Maverick", 32768, 5120),
        ("Qwen3-235B-A22B", 9216, 4096),
        ("Qwen3-235B-A22B", 4096, 8192),
    ],
)
def test_whole_weights_are_those_that_aiter_lists(model, n, k):
    weights = [*attention_weights(MODELS[model], 1), *dense_weights(MODELS[model], 1)]
    assert (n, k) in {(weight.n, weight.k) for weight in weights}


def test_tensor_parallelism_splits_outputs_of_the_first_and_inputs_of_the_second_product():
    found = {(weight.n, weight.k) for weight in attention_weights(MODELS["Llama3 70B"], 8)}
    found |= {(weight.n, weight.k) for weight in dense_weights(MODELS["Llama3 70B"], 8)}
    assert found == {(1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584)}


def test_fewer_key_heads_than_ranks_are_repeated():
    assert (1280, 4096) in {(weight.n, weight.k) for weight in attention_weights(MODELS["Qwen3-235B-A22B"], 8)}
    assert shard(4, 8) == 1


def test_the_router_is_never_split():
    assert {"M": 7, "N": 256, "K": 7168} in cells("gemm", "DeepSeek-R1", tokens=7, tp=8)


def test_norms_are_never_split_and_mla_has_three_of_them():
    for tp in (1, 8):
        found = [args["N"] for args in cells("rmsnorm", "DeepSeek-R1", tokens=3, tp=tp)]
        assert found == [7168, 1536, 512]


def test_head_norms_have_a_row_a_head():
    found = cells("rmsnorm", "Qwen3-32B", tokens=2, tp=8)
    assert {"M": 16, "N": 128, "eps": 1e-5} in found
    assert {"M": 2, "N": 128, "eps": 1e-5} in found


def test_layernorm_models_have_no_rmsnorm():
    assert cells("rmsnorm", "StarCoder2 15B", tokens=1) == []
    assert cells("layernorm", "StarCoder2 15B", tokens=1) == [{"M": 1, "N": 6144, "eps": 1e-5}]
    assert cells("layernorm", "Llama3 8B", tokens=1) == []


def test_moe_shards_only_its_second_dimension():
    assert cells("moe_gemm", "DeepSeek-R1", tokens=32, tp=8) == [
        {"M": 32, "E": 256, "Dim1": 7168, "Dim2": 512, "TopK": 8}
    ]
    assert cells("moe_gemm", "Llama3 8B", tokens=32) == []


def test_models_that_score_with_a_sigmoid_have_no_softmax_gating():
    assert cells("topk_gating_softmax", "DeepSeek-R1", tokens=4) == []
    assert cells("topk_gating_softmax", "Mixtral 8x7B", tokens=4) == [{"num_tokens": 4, "num_experts": 8, "topk": 2}]


def test_one_expert_a_token_leaves_nothing_to_sum():
    assert cells("moe_reduce", "Llama4 Maverick", tokens=4) == []
    assert cells("moe_reduce", "Qwen3-30B-A3B", tokens=4) == [{"num_tokens": 4, "topk": 8, "model_dim": 2048}]


def test_attention_of_a_prefill_and_of_a_decode_step():
    (prefill,) = cells("flash_attn", "Llama3 70B", tokens=4096, tp=8, batch=2)
    assert (prefill["batch"], prefill["seq_q"], prefill["seq_k"]) == (2, 2048, 2048)
    assert (prefill["heads"], prefill["kv_heads"], prefill["dim_qk"]) == (8, 1, 128)
    (decode,) = cells("pa_decode", "Llama3 70B", tokens=32, tp=8, phase="decode", context=1000)
    assert (decode["batch"], decode["seq_q"], decode["seq_k"]) == (32, 1, 1000)
    assert cells("flash_attn", "Llama3 70B", tokens=32, phase="decode") == []
    assert cells("pa_decode", "Llama3 70B", tokens=32, phase="decode") == []


def test_mla_decode_reads_one_latent_and_its_prefill_expands_it():
    (decode,) = cells("mla_decode", "DeepSeek-R1", tokens=4, tp=8, phase="decode", context=64)
    assert (decode["heads"], decode["kv_heads"], decode["dim_qk"], decode["dim_v"]) == (16, 1, 576, 512)
    assert cells("pa_decode", "DeepSeek-R1", tokens=4, phase="decode", context=64) == []
    (prefill,) = cells("flash_attn", "DeepSeek-R1", tokens=64, tp=8)
    assert (prefill["heads"], prefill["kv_heads"], prefill["dim_qk"], prefill["dim_v"]) == (16, 16, 192, 128)


def test_windows_and_encoders_show_in_attention():
    assert cells("flash_attn", "GPT-OSS 120B", tokens=64)[0]["window"] == 128
    assert cells("flash_attn", "Llama4 vision", tokens=64)[0]["causal"] is False


def test_batched_products_of_mla():
    assert cells("batched_gemm", "Kimi-K2 Thinking", tokens=5, tp=8) == [
        {"B": 8, "M": 5, "N": 512, "K": 128},
        {"B": 8, "M": 5, "N": 128, "K": 512},
    ]


@pytest.mark.parametrize("op", sorted(DERIVE))
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_size_is_a_positive_whole_number(op, name):
    for point in (
        Point(tokens=1, tp=8, phase="decode", batch=1, context=1),
        Point(tokens=4096, tp=1, batch=4),
    ):
        for cell in DERIVE[op](MODELS[name], point, usual_dtype(op)):
            sizes = [value for value in cell.args.values() if isinstance(value, int)]
            assert all(size >= 1 or size is False for size in sizes)


def test_a_latent_for_keys_only():
    source = MODELS["DeepSeek-R1"]
    lite = Model(
        **{field: getattr(source, field) for field in Model.__struct_fields__ if field not in ("mla", "name")},
        name="lite",
        mla=type(source.mla)(q_lora=None, kv_lora=512, nope=128, rope=64, v=128),
    )
    found = {(weight.n, weight.k) for weight in attention_weights(lite, 1)}
    assert (128 * 192, 7168) in found
    assert (576, 7168) in found
    assert [cell.args["N"] for cell in DERIVE["rmsnorm"](lite, Point(tokens=1), "bf16")] == [7168, 512]


def test_a_model_twice_or_an_unknown_field_is_told():
    one = 'name = "a"\nhidden = 1\nlayers = 1\nvocab = 1\nheads = 1\nkv_heads = 1\nhead_dim = 1\n'
    with pytest.raises(UnusableInput, match="'a' stands twice"):
        read_models(f"[[model]]\n{one}[[model]]\n{one}".encode(), file="f")
    with pytest.raises(UnusableInput, match="unknown field `hiden`"):
        read_models(f"[[model]]\n{one}hiden = 2\n".encode(), file="f")
