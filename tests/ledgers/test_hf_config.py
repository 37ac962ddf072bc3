"""Hugging Face configs of the model families, in the fields their configuration classes write."""

import pytest

from gate.ledgers.facts import packaged_models
from gate.ledgers.hf_config import read
from gate.model.problem import UnusableInput

MODELS = packaged_models()
BASE = {"rms_norm_eps": 1e-5, "_name_or_path": "org/Some-Model"}
CONFIGS = {
    "Llama3 70B": {
        "model_type": "llama",
        "hidden_size": 8192,
        "num_hidden_layers": 80,
        "vocab_size": 128256,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 28672,
    },
    "Qwen3-32B": {
        "model_type": "qwen3",
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "vocab_size": 151936,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 25600,
        "sliding_window": 4096,
        "use_sliding_window": False,
    },
    "Qwen3-235B-A22B": {
        "model_type": "qwen3_moe",
        "hidden_size": 4096,
        "num_hidden_layers": 94,
        "vocab_size": 151936,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "intermediate_size": 12288,
        "moe_intermediate_size": 1536,
        "num_experts": 128,
        "num_experts_per_tok": 8,
    },
    "DeepSeek-R1": {
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "num_hidden_layers": 61,
        "vocab_size": 129280,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "scoring_func": "sigmoid",
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    },
    "Mixtral 8x7B": {
        "model_type": "mixtral",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "vocab_size": 32000,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    "GPT-OSS 120B": {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_hidden_layers": 36,
        "vocab_size": 201088,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2880,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
    },
    "Llama4 Maverick": {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text",
            "hidden_size": 5120,
            "num_hidden_layers": 48,
            "vocab_size": 202048,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 8192,
            "intermediate_size_mlp": 16384,
            "num_local_experts": 128,
            "num_experts_per_tok": 1,
            "rms_norm_eps": 1e-5,
        },
    },
    "StarCoder2 15B": {
        "model_type": "starcoder2",
        "hidden_size": 6144,
        "num_hidden_layers": 40,
        "vocab_size": 49152,
        "num_attention_heads": 48,
        "num_key_value_heads": 4,
        "intermediate_size": 24576,
        "norm_epsilon": 1e-5,
        "sliding_window": 4096,
    },
}


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_config_gives_the_dimensions_of_the_projects_own_list(name):
    extra = {} if name == "StarCoder2 15B" else BASE
    assert read({**extra, **CONFIGS[name]}, file="f", name=name) == MODELS[name]


def test_names_come_from_the_path_or_the_architecture():
    config = CONFIGS["Llama3 70B"]
    assert read({**config, **BASE}, file="f").name == "Some-Model"
    assert read({**config, "architectures": ["LlamaForCausalLM"]}, file="f").name == "LlamaForCausalLM"
    with pytest.raises(UnusableInput, match="names no model"):
        read(config, file="f")


def test_the_oldest_field_names():
    model = read({"n_embd": 768, "n_layer": 12, "n_head": 12, "layer_norm_epsilon": 1e-5}, file="f", name="gpt2")
    assert (model.hidden, model.heads, model.kv_heads, model.head_dim) == (768, 12, 12, 64)
    assert model.norm == "layernorm"


def test_queries_without_a_latent():
    model = read({**CONFIGS["DeepSeek-R1"], "q_lora_rank": None}, file="f", name="lite")
    assert model.mla is not None
    assert model.mla.q_lora is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": None}, "lacks hidden_size or n_embd"),
        ({"hidden_size": "8192"}, "hidden_size is '8192', not a positive whole number"),
        ({"num_attention_heads": 0}, "num_attention_heads is '0'"),
        ({"num_hidden_layers": True}, "num_hidden_layers is 'True'"),
        ({"hidden_size": 3}, "hidden_size 3 is less than num_attention_heads 64"),
        ({"num_experts": 8}, "lacks num_experts_per_tok"),
        ({"kv_lora_rank": 512}, "lacks qk_nope_head_dim"),
    ],
)
def test_a_missing_or_wrong_dimension_is_one_sentence(change, words):
    with pytest.raises(UnusableInput) as caught:
        read({**CONFIGS["Llama3 70B"], **change}, file="config.json", name="m")
    assert len(caught.value.problems) == 1
    assert str(caught.value.problems[0]).startswith("config.json: not a usable model config: ")
    assert words in str(caught.value.problems[0])


@pytest.mark.parametrize("document", [None, 3, [], "x"])
def test_a_config_that_is_no_object(document):
    with pytest.raises(UnusableInput, match="not an object"):
        read(document, file="f")
