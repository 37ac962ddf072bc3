"""`gate doctor`: what is wrong with a GPU node, with the calls of the providers, or with no cell left empty."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import msgspec

from gate.commands import unheeded
from gate.model.problem import Exit, Problem, WrongUsage
from gate.replay.arms import parse_spec
from gate.replay.node import Check, check_node

SIGNS = {"ok": "ok  ", "note": "note", "bad": "BAD "}
FOLDER = click.Path(path_type=Path, file_okay=False)


def contract_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `--contracts` and `--matrix`."""
    for option in (
        click.option("--contracts", is_flag=True, help="Check what the providers call against the given checkouts."),
        click.option("--matrix", is_flag=True, help="Print the table of ops by providers, without an empty cell."),
        click.option("--aiter", metavar="DIR", type=FOLDER, help="A checkout of AITER."),
        click.option("--flydsl", metavar="DIR", type=FOLDER, help="A checkout of FlyDSL."),
        click.option("--ledgers", metavar="DIR", type=FOLDER, help="Default: ./frozen_ledgers or ours."),
        click.option("--results", metavar="DIR", type=FOLDER, multiple=True, help="With --matrix: measured results."),
        click.option(
            "--survey", "surveys", metavar="GPU=FILE", multiple=True,
            help="With --matrix: what tests/bench/ops_table.py wrote with --out on that GPU.",
        ),
        click.option(
            "--compiles", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), multiple=True,
            help="With --matrix: what provider_compiles.py or aiter_triton_hosts.py of tests/bench wrote with --out.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


@click.command(short_help="Say what is wrong with a GPU node or with the providers, and how to mend it.")
@click.option("--head", metavar="SPEC", help="The head arm, as for replay.")
@click.option("--base", metavar="SPEC", help="The base arm, as for replay.")
@click.option("--out", type=FOLDER, help="The output folder to be used.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
@contract_options
def command(
    head: str | None,
    base: str | None,
    out: Path | None,
    as_json: bool,
    contracts: bool,
    matrix: bool,
    aiter: Path | None,
    flydsl: Path | None,
    ledgers: Path | None,
    results: tuple[Path, ...],
    surveys: tuple[str, ...],
    compiles: tuple[Path, ...],
) -> int:
    """Check GPU, driver, torch, Triton, FlyDSL and paths as the workers would find them; exit 2 if a check is bad.

    With --contracts: every call that a provider makes of AITER and FlyDSL, against the signatures in a checkout's
    source; nothing is imported. Exit 1 if a call has drifted, 2 if a checkout is unusable. With --matrix: for each op
    and each provider whether it is wired, and what is known of it from checkouts, results and compiles given.
    """
    if contracts and matrix:
        raise WrongUsage(Problem(what="--contracts and --matrix exclude each other", file="", fix="give one of them"))
    if contracts or matrix:
        from gate.commands import doctor_contracts, doctor_matrix
        from gate.commands.run import default_ledgers

        root = ledgers or default_ledgers()
        idle = ("results", "surveys", "compiles") if contracts else ("as_json",)
        unheeded.refuse(("head", "base", "out", *idle), beside="--contracts" if contracts else "--matrix")
        if contracts:
            return doctor_contracts.report(aiter=aiter, flydsl=flydsl, ledgers=root, as_json=as_json)
        checkouts = {"aiter": aiter, "flydsl": flydsl}
        return doctor_matrix.report(root, checkouts=checkouts, results=results, surveys=surveys, compiles=compiles)
    if aiter or flydsl or ledgers or results or surveys or compiles:
        raise WrongUsage(Problem(what="these options need --contracts or --matrix", file="", fix="add one of them"))
    return node(head, base, out, as_json=as_json)


def node(head: str | None, base: str | None, out: Path | None, *, as_json: bool) -> int:
    """The checks of this machine and of the arms' interpreters."""
    arms = {"head": parse_spec(head, side="head")}
    if base is not None:
        arms["base"] = parse_spec(base, side="base")
    checks = list(check_node(arms, dict(os.environ), out))
    if as_json:
        document = {"checks": [asdict(check) for check in checks], "bad": count(checks, "bad")}
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        for check in checks:
            click.echo(f"{SIGNS[check.state]} {check.name}: {check.what}" + (f"; {check.fix}" if check.fix else ""))
        click.echo(f"{count(checks, 'bad')} bad, {count(checks, 'note')} to note, {count(checks, 'ok')} ok")
    return Exit.NO_VERDICT if count(checks, "bad") else Exit.PASS


def count(checks: list[Check], state: str) -> int:
    """How many checks ended so."""
    return sum(check.state == state for check in checks)
