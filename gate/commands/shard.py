"""`gate shard`: shares a timed run out over runners, and puts what they measured together again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gate import store
from gate.commands import judged, shard_costs, timed_options
from gate.commands.run import Limits, default_ledgers
from gate.commands.shard_plan import MOST_RUNNERS, PLAN_FILE, ShardPlan
from gate.model.text import counted

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
INPUT = click.Path(path_type=Path)


@click.group("shard", short_help="Share a timed run out over runners, and put it together again.")
def command() -> None:
    """Share a timed run out over runners, and put what they measured together again."""


@command.command()
@click.option("--runners", type=click.IntRange(1, MOST_RUNNERS), required=True, help="How many machines.")
@click.option("--costs", type=INPUT, multiple=True, help="An earlier run: its measured seconds instead of a model's.")
@click.option("--op", "ops", multiple=True, help="An op of the ledgers, or all; may be repeated. Default: as for run.")
@click.option("--shape", "shapes", multiple=True, help="A shape_id; may be repeated.")
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl. Default: ./frozen_ledgers or ours.")
@click.option("--candidate", help="As for run.")
@click.option("--providers", multiple=True, help="As for run.")
@click.option("--stages", multiple=True, help="As for run.")
@click.option("--limit", type=click.IntRange(min=1), help="As for run.")
@click.option("--shapes-from", type=FILE, multiple=True, help="As for run.")
@click.option("--op-from", metavar="MODULE:ATTR", help="As for run.")
@click.option("--no-base", is_flag=True, help="Head alone will be measured.")
@click.option("--out", type=FILE, default=Path(PLAN_FILE), show_default=True, help="The plan.")
@click.option("--matrix", is_flag=True, help="Print the matrix of a GitHub Actions job, one line of JSON.")
def plan(runners: int, costs: tuple[Path, ...], no_base: bool, out: Path, matrix: bool, **given: Any) -> None:
    """Share the shapes out so that all runners are done at about the same time.

    The same inputs give the same plan. Each runner then calls `gate run --replay --shard K/N --plan FILE ...`.
    """
    from gate.commands.timed_work import plan_for, read_work

    root = given.pop("ledgers") or default_ledgers()
    limits = Limits(ops=given.pop("ops"), shapes=given.pop("shapes"))
    work = read_work(root, limits, {**timed_options.DEFAULTS, **given}, base=None if no_base else "")
    known = shard_costs.known(work.jobs, costs)
    made = plan_for(work, runners, known.costs)
    store.write_json(out, made)
    tell(made, known)
    if matrix:
        click.echo(json.dumps(made.matrix, separators=(",", ":")))


def tell(made: ShardPlan, known: shard_costs.Known) -> None:
    """What the costs are of, the shards and the estimates, on stderr."""
    click.echo(known.told(), err=True)
    for one in made.shards:
        click.echo(f"  shard {one.shard}: {counted(len(one.shapes), 'shape')}, about {one.minutes:.1f} min", err=True)
    told = ", ".join(f"{n}: {value:.1f}" for n, value in made.estimates.items())
    click.echo(f"estimated minutes by runners: {told}", err=True)


@command.command()
@click.argument("folders", type=FOLDER, nargs=-1, required=True)
@click.option("--plan", "plan_file", type=FILE, help=f"The plan. Default: {PLAN_FILE} of the first folder that has it.")
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl. Default: ./frozen_ledgers or ours.")
@click.option("--policy", type=FILE, help="Policy. Default: policy.toml beside the ledgers, if there.")
@click.option("--waivers", type=FILE, help="Waivers. Default: waivers.toml beside the ledgers, if there.")
@click.option("--out", type=FOLDER, default=Path("gate-out"), show_default=True, help="Folder for all that is written.")
@click.option("--json", "as_json", is_flag=True, help="Print decision.json instead of the summary.")
def merge(
    folders: tuple[Path, ...],
    plan_file: Path | None,
    ledgers: Path | None,
    policy: Path | None,
    waivers: Path | None,
    out: Path,
    as_json: bool,
) -> int:
    """Judge the shards' results as one run.

    Shards of other ledgers, commits, GPUs or settings are refused. A shard that is missing or broke off makes the run
    no verdict, and is named with its shapes. Exit codes: 0 pass, 1 block, 2 no verdict, 64 wrong usage.
    """
    from gate.commands import shard_merge

    root = ledgers or default_ledgers()
    with store.output_lock(out):
        decision = shard_merge.run(folders, plan_file=plan_file, ledgers=root, policy=policy, waivers=waivers, out=out)
    judged.show(decision, out, as_json=as_json)
    return judged.EXITS[decision.gate]
