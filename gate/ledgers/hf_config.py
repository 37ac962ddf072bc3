"""Knows how a Hugging Face config.json names a model's dimensions.

Field names as transformers' configuration classes write them; a multimodal config keeps the text model's under
`text_config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gate.ledgers.facts import Mla, Model, Moe
from gate.ledgers.ops.point import size
from gate.model.problem import Problem, UnusableInput

EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
# Families that normalise queries and keys per head, which their config does not say.
QK_NORM = ("qwen3", "gemma3", "olmo2")
# Families whose `intermediate_size` is one expert's.
EXPERT_SIZED = ("mixtral", "gpt_oss", "llama4", "phimoe", "dbrx")
# Families without a dense block, whatever `intermediate_size` says.
NO_DENSE = (*EXPERT_SIZED, "qwen2_moe", "qwen3_moe")
INTERLEAVED = ("deepseek", "kimi", "cohere")


class _Reader:
    """Reads positive whole numbers of a config; whatever is missing or wrong is one clear fault."""

    def __init__(self, config: Mapping[str, Any], file: str) -> None:
        self.config, self.file = config, file

    def maybe(self, *names: str) -> int | None:
        """The first of the fields that is there."""
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            try:
                return size(value, name)
            except ValueError as error:
                raise self.fault(str(error)) from None
        return None

    def need(self, *names: str) -> int:
        """As `maybe`, and a fault if none is there."""
        value = self.maybe(*names)
        if value is None:
            raise self.fault(f"lacks {' or '.join(names)}")
        return value

    def fault(self, what: str) -> UnusableInput:
        """The fault as the error to raise."""
        return UnusableInput(Problem(what=f"not a usable model config: {what}", file=self.file))

    def text(self, name: str) -> str:
        """A text field, empty where it is absent or no text."""
        value = self.config.get(name)
        return value if isinstance(value, str) else ""


def read(document: Any, *, file: str, name: str | None = None) -> Model:
    """The model of a parsed config.json. Raises UnusableInput if a dimension that every op needs is missing."""
    if not isinstance(document, dict):
        raise UnusableInput(Problem(what="not a usable model config: not an object", file=file))
    nested = document.get("text_config")
    config = {**document, **nested} if isinstance(nested, dict) else document
    reader = _Reader(config, file)
    family = reader.text("model_type")
    heads = reader.need("num_attention_heads", "n_head")
    hidden = reader.need("hidden_size", "n_embd")
    mla = _mla(reader)
    head_dim = mla.nope + mla.rope if mla is not None else reader.maybe("head_dim") or hidden // heads
    if head_dim < 1:
        raise reader.fault(f"hidden_size {hidden} is less than num_attention_heads {heads}")
    return Model(
        name=name or _name(document, reader),
        hidden=hidden,
        layers=reader.need("num_hidden_layers", "n_layer"),
        vocab=reader.maybe("vocab_size") or 0,
        heads=heads,
        kv_heads=heads if mla is not None else reader.maybe("num_key_value_heads", "num_kv_heads") or heads,
        head_dim=head_dim,
        intermediate=_dense(reader, family),
        norm=_norm(config),
        qk_norm=family.startswith(QK_NORM) or config.get("use_qk_norm") is True,
        rope="gptj" if family.startswith(INTERLEAVED) else "neox",
        window=None if config.get("use_sliding_window") is False else reader.maybe("sliding_window"),
        moe=_moe(reader, family),
        mla=mla,
    )


def _name(document: Mapping[str, Any], reader: _Reader) -> str:
    path = document.get("_name_or_path")
    if isinstance(path, str) and path.strip("/"):
        return path.strip("/").rsplit("/", 1)[-1]
    architectures = document.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        return architectures[0]
    raise reader.fault("names no model; give one with --model")


def _norm(config: Mapping[str, Any]) -> Literal["rmsnorm", "layernorm"]:
    plain = "layer_norm_eps" in config or "layer_norm_epsilon" in config or "norm_epsilon" in config
    return "layernorm" if plain and "rms_norm_eps" not in config else "rmsnorm"


def _dense(reader: _Reader, family: str) -> int | None:
    if (dense := reader.maybe("intermediate_size_mlp")) is not None:
        return dense
    routed = reader.maybe(*EXPERTS) is not None
    return None if routed and family.startswith(NO_DENSE) else reader.maybe("intermediate_size", "n_inner")


def _moe(reader: _Reader, family: str) -> Moe | None:
    experts = reader.maybe(*EXPERTS)
    if experts is None:
        return None
    if family.startswith(EXPERT_SIZED):
        width = reader.need("intermediate_size", "moe_intermediate_size")
    else:
        width = reader.need("moe_intermediate_size", "intermediate_size")
    shared = 1 if family.startswith("llama4") else reader.maybe("n_shared_experts", "num_shared_experts") or 0
    scoring: Literal["softmax", "sigmoid"] = (
        "sigmoid"
        if reader.text("scoring_func") == "sigmoid" or family.startswith(("llama4", "glm4_moe"))
        else "softmax"
    )
    return Moe(
        experts=experts,
        topk=reader.need("num_experts_per_tok", "moe_topk", "num_experts_per_token", "experts_per_token"),
        intermediate=width,
        shared=shared,
        scoring=scoring,
    )


def _mla(reader: _Reader) -> Mla | None:
    latent = reader.maybe("kv_lora_rank")
    if latent is None:
        return None
    return Mla(
        q_lora=reader.maybe("q_lora_rank"),
        kv_lora=latent,
        nope=reader.need("qk_nope_head_dim"),
        rope=reader.need("qk_rope_head_dim"),
        v=reader.need("v_head_dim"),
    )
