"""`gate publish`: a decision to GitHub: comment, commit status, step summary and annotations."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from gate import render
from gate.commands import judged, publish_texts, unheeded
from gate.commands.artifact_judge import read_decision
from gate.commands.github_options import connect, our_run, run_options, told
from gate.model.decision import Decision
from gate.model.problem import Exit, Problem, UnusableInput, WrongUsage
from gate.publish import sinks
from gate.publish.dry import Dry
from gate.publish.hub import GitHub
from gate.publish.patience import Patience
from gate.publish.settle import Desk, Report, settle
from gate.publish.target import resolve
from gate.publish.values import BOT, CONTEXT, SHA, Run, Target

FOLDER = click.Path(path_type=Path, file_okay=False)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said and how: `when` is changed, always or never."""

    name: str
    context: str
    bot: str
    when: str
    pending: bool
    error: str | None


@click.command("publish", short_help="Post a decision to GitHub: comment, status, summary, annotations.")
@click.option("--from", "source", type=FOLDER, help="Folder with decision.json.")
@run_options
@click.option("--pr", "number", type=click.IntRange(min=1), help="Without --run: the pull request to comment on.")
@click.option("--sha", help="Without --run: the commit that was judged; it must be the pull request's head.")
@click.option("--pending", is_flag=True, help="Only set the status to pending: the run has begun.")
@click.option("--error", metavar="WORDS", help="Report that there is no verdict, and why.")
@click.option(
    "--comment",
    "when",
    type=click.Choice(["changed", "always", "never"]),
    default="changed",
    show_default=True,
    help="When to post the first comment: if a row is not unchanged, always, or never.",
)
@click.option("--key", "name", default="main", show_default=True, help="Tells several comments of one PR apart.")
@click.option("--context", default=CONTEXT, show_default=True, help="The name of the commit status.")
@click.option("--bot", default=BOT, show_default=True, help="The login whose comments and statuses are ours.")
@click.option("--dry-run", is_flag=True, help="Send nothing: print every request that would be sent.")
def command(
    source: Path | None,
    repo: str | None,
    run_id: int | None,
    attempt: int | None,
    workflow: str,
    number: int | None,
    sha: str | None,
    pending: bool,
    error: str | None,
    when: str,
    name: str,
    context: str,
    bot: str,
    dry_run: bool,
) -> int:
    """Post the decision in --from where the workflow run belongs; what is posted already decides what is sent.

    The commit and the pull request come from GitHub's API, never from results. Exit codes: 0 posted (whatever the
    verdict), 2 not posted whole, 64 wrong usage.
    """
    if sum((source is not None and error is None, pending, error is not None)) != 1:
        raise WrongUsage(Problem(what="publish needs one of --from, --pending and --error", file=""))
    asked = Asked(name=name, context=context, bot=bot, when=when, pending=pending, error=error)
    hub = connect(repo)
    online = hub if os.environ.get("GITHUB_TOKEN") else None
    door = Dry(online, repo=hub.repo_name, sha=sha or "", bot=bot) if dry_run else hub
    if run_id is not None:
        unheeded.refuse(("number",) if dry_run else ("number", "sha"), beside="--run, which tells it")
        run = our_run(hub, run_id, attempt, workflow=workflow)
        with told():
            target = resolve(run, door)
    else:
        unheeded.refuse(("attempt", "workflow"), beside="a call without --run")
        target = named_target(door, number=number, sha=sha)
    decision = decision_for(asked, source, target.run)
    # With --run the commit is that of the run, which the artifact's header was held against.
    if run_id is None and decision is not None and (why := publish_texts.of_other_commit(decision, target.sha)):
        judged.warn((Problem(what=why, file="", fix="check that this is the commit that was judged"),))
    code = post(door, target, decision, asked)
    if decision is not None and not dry_run:
        local_sinks(decision)
    return code


def named_target(door: GitHub | Dry, *, number: int | None, sha: str | None) -> Target:
    """The target of a person's own call. Raises WrongUsage, or UnusableInput where the head is another commit."""
    if sha is None or not SHA.fullmatch(sha):
        raise WrongUsage(Problem(what="publish needs --run, or --sha with 40 hexadecimal digits", file=""))
    run = publish_texts.local_run(sha, os.environ)
    if number is None:
        return Target(sha=sha, pull=None, run=run, why="no pull request is named")
    with told():
        pull = door.pull(number)
    if pull.head_sha != sha or pull.state != "open":
        return Target(sha=sha, pull=None, run=run, why=f"pull request {number} is {pull.state} at {pull.head_sha}")
    return Target(sha=sha, pull=number, run=run, why="named, open and at this commit")


def decision_for(asked: Asked, source: Path | None, run: Run) -> Decision | None:
    """What to say: the decision in `source`, made a no-verdict where the run did not succeed; None while pending.

    A decision that cannot be read is a no-verdict too: an older green one must not stay.
    """
    if asked.pending:
        return None
    if asked.error is not None or source is None:
        return judged.unusable((Problem(what=asked.error or "nothing was judged", file=""),))
    try:
        decision = read_decision(source)
    except UnusableInput as error:
        return judged.unusable(error.problems)
    return publish_texts.unless_finished(decision, run)


def post(door: GitHub | Dry, target: Target, decision: Decision | None, asked: Asked) -> int:
    """Sends what is due and tells it, one line each."""
    if decision is None:
        target = msgspec.structs.replace(target, pull=None)
        message = publish_texts.pending(target, context=asked.context)
    else:
        quiet = asked.when != "always" and publish_texts.is_quiet(decision)
        if asked.when == "never":
            target = msgspec.structs.replace(target, pull=None)
        message = publish_texts.message(decision, target, name=asked.name, context=asked.context, quiet=quiet)
    brief = publish_texts.briefly(asked.name, asked.context)
    patience = door.patience if isinstance(door, GitHub) else Patience()
    with told():
        report = settle(
            Desk(hub=door, target=target, name=asked.name, brief=brief, bot=asked.bot, patience=patience), message
        )
    tell(target, report)
    return Exit.NO_VERDICT if report.denied else Exit.PASS


def tell(target: Target, report: Report) -> None:
    where = f"pull request {target.pull}" if target.pull is not None else f"no comment ({target.why})"
    sent = ", ".join(step.verb.replace("_", " ") for step in report.sent) or "nothing to send"
    click.echo(f"gate: {target.sha[:12]}, {where}: {sent}", err=True)
    for line in report.refused:
        click.echo(f"gate: GitHub refuses {line}", err=True)


def local_sinks(decision: Decision) -> None:
    """Step summary and annotations, where a workflow run shows them."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for annotation in publish_texts.worst(decision):
            click.echo(sinks.workflow_command(annotation))
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        sinks.write_summary(render.step_summary(decision))
