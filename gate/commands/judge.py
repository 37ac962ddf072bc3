"""`gate judge`: head results against base results over a ledger; one decision, exit code 0, 1 or 2."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from gate.commands import judge_files, judged, printed
from gate.commands.run import POLICY_FILE, WAIVERS_FILE
from gate.commands.run import scope as scope_of
from gate.model.decision import Decision
from gate.model.ledger import Ledger
from gate.model.problem import UnusableInput

if TYPE_CHECKING:
    from gate.analysis.judge import Inputs

INPUT = click.Path(path_type=Path)


class Judge(click.Command):
    """A command that leaves no earlier verdict standing in --out, however wrong its words are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; after a usage error the verdict of an earlier call is gone, unless another gate writes there."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError:
            for out in map(Path, named(words, "--out")):
                judged.forget(out)
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
@click.option("--candidate", help="The candidate instead of the matrix's; ops that have it not enabled are left out.")
@click.option("--policy", type=INPUT, help="Policy. Default: policy.toml beside the ledgers, if there.")
@click.option("--waivers", type=INPUT, help="Waivers. Default: waivers.toml beside the ledgers, if there.")
@click.option(
    "--confirm",
    type=INPUT,
    nargs=2,
    metavar="BASE HEAD",
    help="Base and head results of a session that settles suspects.",
)
@click.option("--profiles", type=INPUT, help="Folder with diagnosis.json files of gate profile, as evidence.")
@click.option("--arch", help="Which of several baselines of an op in a folder: the name of the folder it lies in.")
@click.option("--op-from", metavar="MODULE:ATTR", help="Where the op is defined, for the printed commands.")
@click.option("--out", type=INPUT, required=True, help="Folder for decision.json, regressions.jsonl and the texts.")
@click.option(
    "--today",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The day that waivers are held against; the current one if absent.",
)
@click.option("--json", "as_json", is_flag=True, help="Print decision.json instead of the summary.")
def command(
    *, out: Path, today: datetime | None, as_json: bool, candidate: str | None, op_from: str | None, **given: Any
) -> int:
    """Judges head results against base results.

    Exactly one finding per ledger row. Exit codes: 0 pass, 1 block, 2 no verdict, 64 wrong usage. An input that
    cannot be used still leaves a decision.json that says so. An --out that holds a run keeps its verdict: 64.
    """
    day = (today or datetime.now(UTC)).date()
    with judged.anew(out), judged.without_collector():
        try:
            inputs = judge_files.read_inputs(**{**given, **beside(given)}, today=day)
            place = printed.Given(ledger=given["ledger"], matrix=given["matrix"], op_from=op_from)
            decision = decide(inputs, candidate, place)
        except UnusableInput as error:
            judged.write(judged.unusable(error.problems), out)
            raise
        judged.write(decision, out)
    judged.show(decision, out, as_json=as_json)
    return judged.EXITS[decision.gate]


def beside(given: Mapping[str, Any]) -> dict[str, Path | None]:
    """Policy and waivers as given, else those beside the ledgers, as a run takes them."""
    ledger: Path = given["ledger"]
    root = ledger if ledger.is_dir() else ledger.parent
    return {
        "policy": judge_files.beside(root, POLICY_FILE, given=given["policy"]),
        "waivers": judge_files.beside(root, WAIVERS_FILE, given=given["waivers"]),
    }


def decide(inputs: Inputs, candidate: str | None, place: printed.Given) -> Decision:
    """The decision with commands that find what was judged; of another candidate on the ops that have it.

    Raises WrongUsage for a candidate that no op has, UnusableInput for a confirming session that can settle nothing.
    """
    from gate.analysis.confirm import idle
    from gate.analysis.judge import judge
    from gate.commands.timed_work import candidates

    scope = ""
    if candidate is not None:
        whole, matrices = inputs.ledger, candidates(inputs.matrices, candidate, named=())
        kept = tuple(shape for shape in whole.shapes if shape.op_type in matrices)
        ledger = Ledger(shapes=kept, problems=whole.problems)
        inputs, scope = msgspec.structs.replace(inputs, ledger=ledger, matrices=matrices), scope_of(whole, ledger)
    decision = judge(inputs)
    if (why := idle(inputs, decision)) is not None:
        raise UnusableInput(why)
    decision = printed.repeatable(decision, matrices=inputs.matrices, given=place)
    return msgspec.structs.replace(decision, scope=scope)
