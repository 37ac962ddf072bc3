"""`gate codegen bisect`: the first flydsl wheel that compiles some kernels to other code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.codegen import wheels
from gate.codegen.bisection import Bisected, Skip, bisect
from gate.codegen.diff import compare
from gate.codegen.keys import CompileCase
from gate.commands.codegen_attribute import cases_of
from gate.commands.codegen_inputs import FOLDER, Kernels, cache_home, compiled, kernels_of, limit_options, thresholds
from gate.commands.compile_keys import matching, none_such
from gate.model.codegen import CODEGEN_DISCLAIMER, CodegenRecord
from gate.model.policy import CodegenPolicy
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.text import counted

LOOK = ("findings", "resources", "code")

SHOWN = 4


@click.command("bisect")
@click.option("--wheels", "span", required=True, help="A..B: every version of the index between; or A,B,C.")
@click.option("--flydsl-checkout", type=FOLDER, help="FlyDSL's kernels. Default: this package's own.")
@click.option("--op", "ops", multiple=True, help="An op; may be repeated. Default: all (slow).")
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Only compile keys with these whole fields, such as N=4; N=4* is what begins so; may be repeated.",
)
@click.option(
    "--look-at",
    type=click.Choice(LOOK),
    default="findings",
    show_default=True,
    help="What must differ from the first wheel: findings of a diff worth a warning, any number, or any instruction.",
)
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
    A release may be cut from an older branch than the development wheels before it: stay within one line of them.
    """
    kernels = kernels_of(None, flydsl_checkout)
    cases = asked_for(cases_of(kernels, ops), keys)
    if not cases:
        raise WrongUsage(Problem(what="no case is asked for", file="", fix="see the compile keys of a recorded folder"))
    try:
        versions = wheels.between(span, wheels.published() if ".." in span else ())
        if len(versions) < 2:
            raise WrongUsage(Problem(what="a bisection needs two versions or more", file="", fix="--wheels A..B"))
        asked = Asked(cases=cases, kernels=kernels, look_at=look_at, limits=limits)
        found = bisect(versions, asked.signature)
    except (wheels.WheelError, Skip) as error:
        raise UnusableInput(Problem(what=str(error), file="")) from None
    if as_json:
        click.echo(store.encode(found).decode("utf-8"))
    else:
        tell(found, cases, total=len(versions))


def asked_for(cases: list[CompileCase], parts: Sequence[str]) -> list[CompileCase]:
    """The cases whose keys a part names; all of them without parts. Raises WrongUsage for a part that names none."""
    keys = [case.compile_key for case in cases]
    wanted = {part: matching(part, keys) for part in parts}
    if missed := [part for part, found in wanted.items() if not found]:
        raise WrongUsage(none_such(missed[0], keys))
    named = {key for found in wanted.values() for key in found}
    return [case for case in cases if not parts or case.compile_key in named]


class Asked:
    """What is asked of each version; the first one that answers is what the others are compared with."""

    def __init__(self, *, cases: list[CompileCase], kernels: Kernels, look_at: str, limits: dict[str, Any]) -> None:
        self.cases, self.kernels, self.look_at, self.limits = cases, kernels, look_at, limits
        self.first: list[CodegenRecord] = []

    def signature(self, version: str) -> tuple[object, str]:
        """What one version makes of the cases, comparable and in words. Raises Skip when it cannot be asked."""
        click.echo(f"flydsl {version}", err=True)
        try:
            python = wheels.environment(version, cache_home())
            records, _ = compiled(self.cases, self.kernels, python, self.limits)
        except wheels.WheelError as error:
            raise Skip(f"flydsl {version} does not install: {error}") from None
        except UnusableInput as error:
            raise Skip(f"flydsl {version}: {error}") from None
        if all(record.metrics is None for record in records):
            raise Skip(f"flydsl {version} compiles none of them: {records[0].status}: {records[0].error}")
        self.first = self.first or records
        seen = [looked_at(old, new, self.look_at) for old, new in zip(self.first, records, strict=True)]
        return tuple(seen), ", ".join(map(numbers, records[:SHOWN]))


def looked_at(first: CodegenRecord, record: CodegenRecord, look_at: str) -> object:
    """One kernel as the search sees it: what a diff against the first version warns of, its numbers, or its text."""
    found = record.metrics
    if look_at == "findings":
        change = compare(first, record, thresholds(CodegenPolicy()))
        return frozenset(finding.code for finding in change.findings if finding.severity != "info")
    if found is None:
        return record.status
    return record.isa_sha if look_at == "code" else msgspec.structs.replace(found, mix={})


def numbers(record: CodegenRecord) -> str:
    """VGPRs, instructions and waves, or the status of what did not compile."""
    found = record.metrics
    return f"{found.vgpr}/{found.instructions}/{found.waves_per_simd}" if found else record.status


def tell(found: Bisected, cases: list[CompileCase], *, total: int) -> None:
    click.echo("VGPRs/instructions/waves of " + ", ".join(case.compile_key for case in cases[:SHOWN]))
    for step in found.steps:
        click.echo(f"  {step.version:16} {step.state:17} {step.words}")
    compiles = sum(step.state != "skipped" for step in found.steps) * len(cases)
    if found.first_changed is None:
        click.echo("no change found")
    else:
        click.echo(f"{found.last_same} -> {found.first_changed}")
    click.echo(
        f"{len(found.steps)} of {counted(total, 'wheel')} asked, {counted(compiles, 'compile')}; {found.confidence}"
    )
    click.echo(CODEGEN_DISCLAIMER)
    sys.stdout.flush()
