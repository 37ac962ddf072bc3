"""`gate judge`: head results against base results over a ledger; one decision, exit code 0, 1 or 2."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from gate.commands import judge_files, judged
from gate.model.problem import UnusableInput

INPUT = click.Path(path_type=Path)


@click.command("judge", short_help="Judge head results against base results over a ledger.")
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
@click.option("--out", type=INPUT, required=True, help="Folder for decision.json, regressions.jsonl and the texts.")
@click.option(
    "--today",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The day that waivers are held against; the current one if absent.",
)
@click.option("--json", "as_json", is_flag=True, help="Print decision.json instead of the summary.")
def command(
    ledger: Path,
    matrix: Path,
    base: Path,
    head: Path,
    policy: Path | None,
    waivers: Path | None,
    confirm: tuple[Path, Path] | None,
    out: Path,
    today: datetime | None,
    as_json: bool,
) -> int:
    """Judges head results against base results.

    Exactly one finding per ledger row. Exit codes: 0 pass, 1 block, 2 no verdict, 64 wrong usage. An input that
    cannot be used still leaves a decision.json that says so.
    """
    from gate.analysis.judge import judge

    day = (today or datetime.now(UTC)).date()
    with judged.without_collector():
        try:
            inputs = judge_files.read_inputs(
                ledger=ledger,
                matrix=matrix,
                base=base,
                head=head,
                policy=policy,
                waivers=waivers,
                confirm=confirm,
                today=day,
            )
        except UnusableInput as error:
            judged.write(judged.unusable(error.problems), out)
            raise
        decision = judge(inputs)
        judged.write(decision, out)
    judged.show(decision, out, as_json=as_json)
    return judged.EXITS[decision.gate]
