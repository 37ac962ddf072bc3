"""Knows which points of which models are frozen, and derives the drafts of an op from them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import msgspec

from gate.ledgers import serving, synthetic
from gate.ledgers.draft import Draft, one_row_per_physical_shape
from gate.ledgers.facts import Model
from gate.ledgers.ops import DERIVE
from gate.ledgers.ops.point import Point
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import Source

RECIPE_FILE = Path(__file__).with_name("frozen.toml")


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The points of one op at some models; the fields are explained in frozen.toml."""

    op: str
    models: tuple[str, ...]
    dtypes: tuple[str, ...]
    tp: tuple[int, ...] = (1,)
    decode: tuple[int, ...] = ()
    prefill: tuple[int, ...] = ()
    batch: tuple[int, ...] = (1,)
    context: tuple[int, ...] = ()
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class Traffic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ops that are weighted by the recorded runs of some models."""

    ops: tuple[str, ...]
    dtype: str
    models: tuple[str, ...]


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is frozen: sweeps over models, the ops weighted by runs, and the ops that get their probes."""

    derive: tuple[Sweep, ...]
    probes: tuple[str, ...] = ()
    traffic: tuple[Traffic, ...] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        """Every op with a ledger, sorted."""
        return tuple(sorted({sweep.op for sweep in self.derive} | set(self.probes)))

    def of(self, op: str) -> Recipe:
        """What concerns one op."""
        return Recipe(
            derive=tuple(sweep for sweep in self.derive if sweep.op == op),
            probes=tuple(name for name in self.probes if name == op),
            traffic=tuple(msgspec.structs.replace(one, ops=(op,)) for one in self.traffic if op in one.ops),
        )


def read_recipe(data: bytes, *, file: str) -> Recipe:
    """The recipe in a TOML file. Raises UnusableInput with one line."""
    try:
        return msgspec.toml.decode(data, type=Recipe)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableInput(Problem(what=f"not a recipe: {error}", file=file)) from None


def packaged_recipe() -> Recipe:
    """The project's own recipe."""
    return read_recipe(RECIPE_FILE.read_bytes(), file=RECIPE_FILE.name)


def drafts(op: str, *, recipe: Recipe, models: Mapping[str, Model]) -> list[Draft]:
    """Everything frozen for `op`, one draft per (model, physical shape); no physical shape under two stages."""
    found = [draft for sweep in recipe.derive if sweep.op == op for draft in derived(sweep, models)]
    for entry in recipe.traffic:
        if op in entry.ops:
            runs = serving.packaged_runs()
            found += serving.weighted(op, dtype=entry.dtype, names=entry.models, runs=runs, models=models)
    if op in recipe.probes:
        found += synthetic.drafts(op)
    return one_row_per_physical_shape(found)


def points(sweep: Sweep) -> Iterator[Point]:
    """The sweep's points: phases, tokens, contexts and ranks crossed."""
    contexts = sweep.context or (None,)
    for tp, count, context in product(sweep.tp, sweep.decode, contexts):
        yield Point(tokens=count, tp=tp, phase="decode", batch=count, context=context)
    for tp, length, batch, context in product(sweep.tp, sweep.prefill, sweep.batch, contexts):
        yield Point(tokens=batch * length, tp=tp, phase="prefill", batch=batch, context=context)


def derived(sweep: Sweep, models: Mapping[str, Model]) -> Iterator[Draft]:
    """The shapes of a sweep's models at its points. Raises UnusableInput for a model that is not in `models`."""
    for model in _chosen(sweep, models):
        for point, dtype in product(points(sweep), sweep.dtypes):
            for cell in DERIVE[sweep.op](model, point, dtype):
                if cell.notes in sweep.without or (sweep.only and cell.notes not in sweep.only):
                    continue
                source = Source(kind="model_config", file="models.toml")
                yield Draft.of_cell(cell, op_type=sweep.op, model=model.name, stage="model_config", source=source)


def _chosen(sweep: Sweep, models: Mapping[str, Model]) -> list[Model]:
    if sweep.models == ("*",):
        return list(models.values())
    unknown = [name for name in sweep.models if name not in models]
    if unknown:
        raise UnusableInput(
            Problem(what=f"{sweep.op}: no model {', '.join(unknown)} in models.toml", file=RECIPE_FILE.name)
        )
    return [models[name] for name in sweep.models]
