"""`gate ledger import ...`: shapes from AITER, from model dimensions, by hand and as probes."""

from __future__ import annotations

from pathlib import Path

import click

from gate.commands.ledger_import_serving import atom_verb, sglang_verb
from gate.commands.ledger_needs import lacking
from gate.commands.ledger_put import (
    FILE,
    any_sizes,
    chosen_model,
    dtype_option,
    finish,
    ops_option,
    put,
    sizes,
    target_options,
)
from gate.commands.telling import say
from gate.ledgers import aiter_model_shapes, documents, manual, recipe, synthetic
from gate.ledgers.draft import Draft
from gate.ledgers.ops import DERIVE, usual_dtype
from gate.model.problem import Problem, WrongUsage
from gate.model.text import counted
from gate.store import read_bytes, read_document


@click.group("import")
def import_group() -> None:
    """Bring shapes from a source into a ledger; running it again changes nothing."""


import_group.add_command(sglang_verb)
import_group.add_command(atom_verb)


@import_group.command("aiter-model-shapes")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--m-values", callback=sizes, default="1,32,256,2048,16384", show_default=True, help="Tokens a step.")
@click.option("--batches", callback=sizes, default="1", show_default=True, help="Batches of attention.")
@click.option("--seq-lens", callback=sizes, default="4096", show_default=True, help="Lengths of attention, in tokens.")
@click.option("--tp", callback=sizes, default="8", show_default=True, help="Ranks of tensor parallelism.")
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    type=click.Choice(sorted(aiter_model_shapes.KERNELS)),
    metavar="KEY",
    help="Only this kernel key; repeatable. All rows of this source are replaced all the same.",
)
@target_options
def aiter_verb(
    files: tuple[Path, ...],
    m_values: tuple[int, ...],
    batches: tuple[int, ...],
    seq_lens: tuple[int, ...],
    tp: tuple[int, ...],
    kernels: tuple[str, ...],
    into: Path | None,
    ledgers: Path | None,
) -> int:
    """AITER's model_shapes.json, every kernel key of it, sharded as AITER's own tool does."""
    drafts: list[Draft] = []
    problems: list[Problem] = []
    counts: dict[str, int] = {}
    for path in files:
        document = documents.parse(read_document(path), file=str(path))
        for ranks in tp:
            sweep = aiter_model_shapes.Sweep(m_values=m_values, batches=batches, seq_lens=seq_lens, tp=ranks)
            found = aiter_model_shapes.read(document, file=str(path), sweep=sweep)
            drafts += [draft for draft in found.drafts if not kernels or draft.kernel_name in kernels]
            problems += [problem for problem in found.problems if problem not in problems]
            for name, count in found.counts.items():
                counts[name] = counts.get(name, 0) + count
    for name, count in sorted(counts.items()):
        if not kernels or name in kernels:
            say(f"{name}: {counted(count, 'shape')} as {aiter_model_shapes.KERNELS[name].op}")
    put(drafts, kinds=frozenset({aiter_model_shapes.KIND}), into=into, ledgers=ledgers, problems=problems)
    return finish(problems)


@import_group.command("model-config")
@click.option("--config", type=FILE, help="A Hugging Face config.json.")
@click.option("--model", "name", help="A model of the project's own list, or the name for --config.")
@click.option("--tp", callback=sizes, default="1", show_default=True, help="Ranks of tensor parallelism.")
@click.option("--decode", callback=any_sizes, default="1,32,256", show_default=True, help="Requests of decode steps.")
@click.option("--prefill", callback=any_sizes, default="2048,16384", show_default=True, help="Tokens of prefill steps.")
@click.option("--context", callback=any_sizes, default="", help="Cached tokens a request, for attention.")
@dtype_option()
@ops_option(DERIVE)
@target_options
def model_verb(
    config: Path | None,
    name: str | None,
    tp: tuple[int, ...],
    decode: tuple[int, ...],
    prefill: tuple[int, ...],
    context: tuple[int, ...],
    dtype: str | None,
    ops: tuple[str, ...],
    into: Path | None,
    ledgers: Path | None,
) -> int:
    """Shapes that follow from one model's dimensions."""
    if not decode and not prefill:
        raise WrongUsage(Problem(what="neither --decode nor --prefill names a size", file=""))
    model = chosen_model(config, name)
    sweeps = [
        recipe.Sweep(
            op=op,
            models=(model.name,),
            dtypes=(dtype or usual_dtype(op),),
            tp=tp,
            decode=decode,
            prefill=prefill,
            context=context,
        )
        for op in ops
    ]
    drafts = [draft for sweep in sweeps for draft in recipe.derived(sweep, {model.name: model})]
    put(drafts, kinds=frozenset({"model_config"}), into=into, ledgers=ledgers)
    return finish(())


@import_group.command("manual")
@click.argument("files", nargs=-1, required=True, type=FILE)
@target_options
def manual_verb(files: tuple[Path, ...], into: Path | None, ledgers: Path | None) -> int:
    """Shapes written by hand: a JSON or YAML list of {op_type, dtype, args, ...}."""
    drafts: list[Draft] = []
    problems: list[Problem] = []
    for path in files:
        data = documents.unpacked(read_bytes(path), file=str(path))
        found, faults = manual.read(documents.parse(data, file=str(path)), file=str(path), data=data, lacking=lacking)
        drafts += found
        problems += faults
    put(drafts, kinds=frozenset({"manual"}), into=into, ledgers=ledgers, problems=problems)
    return finish(problems)


@import_group.command("synthetic")
@ops_option(synthetic.PROBES)
@target_options
def synthetic_verb(ops: tuple[str, ...], into: Path | None, ledgers: Path | None) -> int:
    """Boundary probes of each op: alignment edges, cliffs of the kernels' own dispatch, tiny and huge, dtypes."""
    drafts = [draft for op in ops for draft in synthetic.drafts(op)]
    put(drafts, kinds=frozenset({"synthetic"}), into=into, ledgers=ledgers)
    return finish(())


@import_group.command("diagnostic")
@click.option("--op", required=True, help="The op that is probed.")
@click.argument("shapes", nargs=-1, required=True, metavar="M,N,DTYPE...")
@target_options
def diagnostic_verb(op: str, shapes: tuple[str, ...], into: Path | None, ledgers: Path | None) -> int:
    """Single shapes for a closer look, such as 32768,8192,bf16."""
    try:
        drafts = manual.diagnostic(op, shapes)
    except ValueError as error:
        raise WrongUsage(Problem(what=str(error), file="")) from None
    put(drafts, kinds=frozenset({"diagnostic"}), into=into, ledgers=ledgers)
    return finish(())
