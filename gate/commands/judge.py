"""`gate judge`: head results against base results over a ledger; one decision, exit code 0, 1 or 2."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from gate.commands import judge_files, judged
from gate.model.problem import UnusableInput

INPUT = click.Path(path_type=Path)


class Judge(click.Command):
    """A command that leaves no earlier verdict standing in --out, however wrong its words are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; after a usage error the verdict of an earlier call is gone."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError:
            for out in named(words, "--out"):
                judged.clear(Path(out))
            raise


def named(words: list[str], option: str) -> list[str]:
    """What the words give for an option, as `--option VALUE` or `--option=VALUE`."""
    apart = [value for word, value in pairwise(words) if word == option]
    return apart + [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]


@click.command("judge", cls=Judge, short_help="Judge head results against base results over a ledger.")
@click.option("--ledger", type=INPUT, required=True, help="shape_ledger.jsonl, or a folder of <op>/shape_ledger.jsonl.")
@click.option("--matrix", type=INPUT, required=True, help="baseline_matrix.yaml, or a folder with one per op.")
@click.option("--base", type=INPUT, required=True, help="Results of the base commit, or a folder with one per op.")
@click.option("--head", type=INPUT, required=True, help="Results of the head commit, or a folder with one per op.")
@click.option("--policy", type=INPUT, help="policy.toml; without it the defaults (see gate policy explain).")
@click.option("--waivers", type=INPUT, help="waivers.toml.")
@click.option(
    "--confirm",
    type=INPUT,
    nargs=2,
    metavar="BASE HEAD",
    help="Base and head results of a session that settles suspects.",
)
@click.option("--profiles", type=INPUT, help="Folder with diagnosis.json files of gate profile, as evidence.")
@click.option("--arch", help="Which of several baselines of an op in a folder: the name of the folder it lies in.")
@click.option("--out", type=INPUT, required=True, help="Folder for decision.json, regressions.jsonl and the texts.")
@click.option(
    "--today",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The day that waivers are held against; the current one if absent.",
)
@click.option("--json", "as_json", is_flag=True, help="Print decision.json instead of the summary.")
def command(*, out: Path, today: datetime | None, as_json: bool, **given: Any) -> int:
    """Judges head results against base results.

    Exactly one finding per ledger row. Exit codes: 0 pass, 1 block, 2 no verdict, 64 wrong usage. An input that
    cannot be used still leaves a decision.json that says so.
    """
    from gate.analysis.judge import judge

    day = (today or datetime.now(UTC)).date()
    judged.clear(out)
    with judged.without_collector():
        try:
            inputs = judge_files.read_inputs(**given, today=day)
        except UnusableInput as error:
            judged.write(judged.unusable(error.problems), out)
            raise
        decision = judge(inputs)
        judged.write(decision, out)
    judged.show(decision, out, as_json=as_json)
    return judged.EXITS[decision.gate]
