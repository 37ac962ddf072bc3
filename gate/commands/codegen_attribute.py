"""`gate codegen attribute`: whether the kernels or the compiler changed the code, from the four combinations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gate import store
from gate.codegen import checkout
from gate.codegen.attribute import CAUSES, Attribution, attribute_all
from gate.codegen.keys import CompileCase, compile_case
from gate.commands import machine_code
from gate.commands.codegen_inputs import FOLDER, Kernels, compiled, hold, kernels_of, limit_options, python_of
from gate.model.codegen import CODEGEN_DISCLAIMER, CodegenRecord
from gate.model.problem import Problem, WrongUsage
from gate.resources import frozen_ledgers_dir


@click.command("attribute")
@click.option("--base-checkout", type=FOLDER, help="FlyDSL checkout of base. Default: this package's kernels.")
@click.option("--head-checkout", type=FOLDER, help="FlyDSL checkout of head.")
@click.option("--base-wheel", help="flydsl version of base, or an interpreter that has it.", required=True)
@click.option("--head-wheel", help="flydsl version of head, or an interpreter that has it.", required=True)
@click.option("--op", "ops", multiple=True, help="An op; may be repeated. Default: all.")
@click.option("--out", type=FOLDER, help="Folder that gets the four sets of records and attribution.jsonl.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines on standard output.")
@limit_options
def command(
    base_checkout: Path | None,
    head_checkout: Path | None,
    base_wheel: str,
    head_wheel: str,
    ops: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Compile base's and head's kernels with base's and head's compiler, and say which of the two moved each."""
    if (base_checkout is None) != (head_checkout is None):
        raise WrongUsage(Problem(what="name both --base-checkout and --head-checkout, or neither", file=""))
    old, new = kernels_of(None, base_checkout), kernels_of(None, head_checkout)
    cases = cases_of(new, ops)
    if not cases:
        raise WrongUsage(Problem(what=f"no case for {', '.join(ops)}", file="", fix="name ops that the kernels have"))
    hold(out)
    pythons = {"base": interpreter(base_wheel), "head": interpreter(head_wheel)}
    corners: dict[str, dict[str, CodegenRecord]] = {}
    for title, kernels, side in (
        ("base_base", old, "base"),
        ("head_kernels", new, "base"),
        ("head_compiler", old, "head"),
        ("head_head", new, "head"),
    ):
        records, _ = compiled(cases, kernels, pythons[side], limits)
        corners[title] = {record.compile_key: record for record in records}
        if out is not None:
            machine_code.write_records(out / title, records)
    found = attribute_all(**corners)
    if out is not None:
        store.write_jsonl(out / "attribution.jsonl", found)
    tell(found, as_json=as_json)


def interpreter(text: str) -> str:
    """An interpreter: the path as it is, or the managed environment of a version."""
    return python_of(text, None) if "/" in text else python_of(None, text)


def cases_of(kernels: Kernels, ops: tuple[str, ...]) -> list[CompileCase]:
    """The cases that stand for a checkout's ops, or those of this package's frozen ledgers for its own kernels."""
    if kernels.is_checkout:
        return checkout.representative(set(ops) or None)
    shapes = [
        shape
        for path in sorted(frozen_ledgers_dir().glob(f"*/{store.LEDGER_FILE}"))
        for shape in store.read_ledger(path).shapes
        if not ops or shape.op_type in ops
    ]
    return machine_code.plan(shapes, compile_case).distinct()


def tell(found: tuple[Attribution, ...], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            click.echo(store.encode(one).decode("utf-8"))
        return
    for one in found:
        if one.cause != "same":
            click.echo(f"{one.cause:14} {one.compile_key}: {one.text}")
    counts = {cause: sum(one.cause == cause for one in found) for cause in CAUSES}
    click.echo(", ".join(f"{count} {cause}" for cause, count in counts.items() if count))
    click.echo(CODEGEN_DISCLAIMER)
