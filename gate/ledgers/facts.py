"""What is known of a model: the dimensions in models.toml, read into values."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from gate.model.problem import Problem, UnusableInput

MODELS_FILE = Path(__file__).with_name("models.toml")


class Moe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Experts, how many each token visits, the width of one expert, and the experts that every token visits."""

    experts: int
    topk: int
    intermediate: int
    shared: int = 0
    scoring: Literal["softmax", "sigmoid"] = "softmax"


class Mla(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ranks of multi-head latent attention and the parts of its heads; without `q_lora` queries have no latent."""

    q_lora: int | None
    kv_lora: int
    nope: int
    rope: int
    v: int


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model's dimensions, as its maker published them; the words are explained in models.toml."""

    name: str
    hidden: int
    layers: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int | None = None
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    qk_norm: bool = False
    rope: Literal["neox", "gptj", "none"] = "neox"
    window: int | None = None
    causal: bool = True
    moe: Moe | None = None
    mla: Mla | None = None


class _Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: tuple[Model, ...]


def read_models(data: bytes, *, file: str) -> dict[str, Model]:
    """The models by name, in the file's order. Raises UnusableInput for a fault or a name that stands twice."""
    try:
        models = msgspec.toml.decode(data, type=_Models).model
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableInput(Problem(what=f"not a list of models: {error}", file=file)) from None
    named = {model.name: model for model in models}
    if len(named) != len(models):
        names = [model.name for model in models]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnusableInput(Problem(what=f"the model {twice!r} stands twice", file=file))
    return named


@cache
def packaged_models() -> dict[str, Model]:
    """The project's own models."""
    return read_models(MODELS_FILE.read_bytes(), file=MODELS_FILE.name)
