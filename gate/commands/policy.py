"""`gate policy`: the policy in force, key by key, and whether a policy file is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gate import store
from gate.analysis.policy_text import Explained, explain
from gate.commands.judge_files import read_policy, read_waivers
from gate.model.text import counted

FILE = click.Path(path_type=Path)


@click.group("policy", short_help="Show or check the policy that judges.")
def command() -> None:
    """Show or check the policy that judges."""


@command.command("explain")
@click.option("--policy", type=FILE, help="policy.toml; without it the defaults.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list instead of text.")
def explain_command(policy: Path | None, as_json: bool) -> None:
    """Print every key: the value in force, the default where it differs, and what it does."""
    keys = explain(read_policy(policy))
    if as_json:
        click.echo(store.encode(keys))
        return
    for key in keys:
        click.echo(_line(key))
        click.echo(f"    {key.text}")


def _line(key: Explained) -> str:
    changed = "" if key.value == key.default else f"   (default {_toml(key.default)})"
    return f"{key.key} = {_toml(key.value)}{changed}"


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return str(value)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"'


@command.command("check")
@click.option("--policy", type=FILE, help="policy.toml to check.")
@click.option("--waivers", type=FILE, help="waivers.toml to check.")
def check_command(policy: Path | None, waivers: Path | None) -> None:
    """Check a policy or a waiver file; exit 2 and one line per wrong key."""
    if policy is None and waivers is None:
        raise click.UsageError("name a file with --policy or --waivers")
    if policy is not None:
        read_policy(policy)
        click.echo(f"{policy}: valid policy")
    if waivers is not None:
        click.echo(f"{waivers}: {counted(len(read_waivers(waivers)), 'valid waiver')}")
