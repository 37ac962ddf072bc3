"""`gate codegen bisect`: the first flydsl wheel that compiles some kernels to other code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from gate import store
from gate.codegen import wheels
from gate.codegen.bisection import Bisected, Skip, bisect
from gate.codegen.keys import CompileCase
from gate.commands.codegen_attribute import cases_of
from gate.commands.codegen_inputs import FOLDER, Kernels, cache_home, compiled, kernels_of, limit_options
from gate.model.codegen import CODEGEN_DISCLAIMER, CodegenRecord
from gate.model.problem import Problem, UnusableInput, WrongUsage

LOOK = ("resources", "code")


@click.command("bisect")
@click.option("--wheels", "span", required=True, help="A..B: every version of the index between; or A,B,C.")
@click.option("--flydsl-checkout", type=FOLDER, help="FlyDSL's kernels. Default: this package's own.")
@click.option("--op", "ops", multiple=True, help="An op; may be repeated. Default: all (slow).")
@click.option("--key", "keys", multiple=True, help="Only compile keys that contain this; may be repeated.")
@click.option("--look-at", type=click.Choice(LOOK), default="resources", show_default=True, help="What must differ.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@limit_options
def command(
    span: str,
    flydsl_checkout: Path | None,
    ops: tuple[str, ...],
    keys: tuple[str, ...],
    look_at: str,
    as_json: bool,
    **limits: Any,
) -> None:
    """Find the first wheel of a range whose code is not that of the first one, a few compiles a step.

    Wheels are installed once into managed environments; one that does not install or compile is skipped and named.
    """
    kernels = kernels_of(None, flydsl_checkout)
    cases = [case for case in cases_of(kernels, ops) if not keys or any(key in case.compile_key for key in keys)]
    if not cases:
        raise WrongUsage(Problem(what="no case is asked for", file="", fix="see the compile keys of a recorded folder"))
    try:
        versions = wheels.between(span, wheels.published() if ".." in span else ())
        if len(versions) < 2:
            raise WrongUsage(Problem(what="a bisection needs two versions or more", file="", fix="--wheels A..B"))
        found = bisect(versions, lambda version: signature(version, cases, kernels, look_at, limits))
    except (wheels.WheelError, Skip) as error:
        raise UnusableInput(Problem(what=str(error), file="")) from None
    if as_json:
        click.echo(store.encode(found).decode("utf-8"))
    else:
        tell(found, cases, total=len(versions))


def signature(
    version: str, cases: list[CompileCase], kernels: Kernels, look_at: str, limits: dict[str, Any]
) -> tuple[object, ...]:
    """What one version makes of the cases. Raises Skip when it cannot be asked."""
    click.echo(f"flydsl {version}", err=True)
    try:
        python = wheels.environment(version, cache_home())
        records, _ = compiled(cases, kernels, python, limits)
    except wheels.WheelError as error:
        raise Skip(f"flydsl {version} does not install: {error}") from None
    except UnusableInput as error:
        raise Skip(f"flydsl {version}: {error}") from None
    if all(record.metrics is None for record in records):
        raise Skip(f"flydsl {version} compiles none of them: {records[0].status}: {records[0].error}")
    return tuple(_looked_at(record, look_at) for record in records)


def _looked_at(record: CodegenRecord, look_at: str) -> object:
    numbers = record.metrics
    if numbers is None:
        return record.status
    if look_at == "code":
        return record.isa_sha
    spilled = (numbers.vgpr_spills, numbers.sgpr_spills, numbers.scratch_bytes)
    return (numbers.vgpr, numbers.agpr, numbers.waves_per_simd, numbers.instructions, numbers.lds_bytes, *spilled)


def tell(found: Bisected, cases: list[CompileCase], *, total: int) -> None:
    for step in found.steps:
        click.echo(f"  {step.version:16} {step.state}{f': {step.reason}' if step.reason else ''}")
    compiles = sum(step.state != "skipped" for step in found.steps) * len(cases)
    if found.first_changed is None:
        click.echo("no change found")
    else:
        click.echo(f"{found.last_same} -> {found.first_changed}")
    click.echo(f"{len(found.steps)} of {total} wheels asked, {compiles} compiles; {found.confidence}")
    click.echo(CODEGEN_DISCLAIMER)
    sys.stdout.flush()
