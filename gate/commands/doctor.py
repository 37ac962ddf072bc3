"""`gate doctor`: says what is wrong with a GPU node and how to mend it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from gate.model.problem import Exit
from gate.replay.arms import parse_spec
from gate.replay.node import Check, check_node

SIGNS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


@click.command(short_help="Say what is wrong with a GPU node and how to mend it.")
@click.option("--head", metavar="SPEC", help="The head arm, as for replay.")
@click.option("--base", metavar="SPEC", help="The base arm, as for replay.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="The output folder to be used.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def command(head: str | None, base: str | None, out: Path | None, as_json: bool) -> int:
    """Check GPU, driver, torch, Triton, FlyDSL and paths as the workers would find them; exit 2 if a check is bad."""
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
