"""`gate baseline`: which numbers later runs are held against, where they came from, and how two of them differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.analysis.decide import BLOCKING
from gate.commands import baseline_code, baseline_files, baseline_release, baseline_show, unheeded
from gate.commands.baseline_files import Op, Place, Refused
from gate.commands.baseline_release import DAY, FOLDER, INPUT
from gate.commands.run import default_ledgers
from gate.ledgers import promotion
from gate.ledgers.baselines import Offer, Right, of_times
from gate.ledgers.freeze import sha256
from gate.ledgers.left_out import left_out, measured
from gate.model.baseline import Provenance
from gate.model.decision import Decision
from gate.model.policy import Policy
from gate.model.problem import Problem, UnusableInput, WrongUsage


@click.group("baseline", short_help="Record, promote, show and compare stored baselines.")
def command() -> None:
    """Record, promote, show and compare stored baselines.

    A baseline lies in <op>/baselines/<architecture>/ of the ledgers. It is only ever replaced by a run that passed;
    what it replaced stays under history/, and provenance.jsonl has one line for each. A release that was pinned
    stays beside it under release/: a run far slower than that is drift, and replaces nothing.
    """


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--from", "source", type=INPUT, required=True, help="Results: of `replay` or `artifact take`."),
        click.option("--ledgers", type=FOLDER, help="Frozen ledgers. Default: ./frozen_ledgers or ours."),
        click.option("--commit", required=True, help="The commit that was measured, all 40 digits."),
        click.option("--name", help="Folder under baselines/. Default: the architecture of the rows."),
        click.option("--run", "run_name", default="", help="Name of the run. Default: the rows' run_id."),
        click.option("--date", "day", type=DAY, help="The day to write down. Default: today, UTC."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@command.command()
@_options
@click.option("--decision", "decision_folder", type=FOLDER, required=True, help="The judgement of these results.")
@click.option("--accept-waived", is_flag=True, help="Take over rows that got slower and are waived, on purpose.")
@click.option("--accept-drift", is_flag=True, help="Take over times far from the pinned release, on purpose.")
def promote(
    source: Path,
    ledgers: Path | None,
    commit: str,
    name: str | None,
    run_name: str,
    day: datetime | None,
    decision_folder: Path,
    accept_waived: bool,
    accept_drift: bool,
) -> None:
    """Make the results of a run that passed the baseline: all ops of the run, or none.

    Times where the decision rests on times, machine code where it rests on that.
    Exit codes: 0 written (or already so), 1 refused, 2 unusable input.
    """
    right, decision = _by_decision(decision_folder, day=day, run_name=run_name)
    if decision.kind == "codegen":
        unheeded.refuse(["accept_drift"], beside="a decision on machine code")
    faults = promotion.pass_faults(decision)
    if (fault := promotion.commit_fault(commit, "--commit")) is not None:
        faults.append(fault)
    if decision.gate == "block":
        faults += _worse(decision)
    if faults:
        raise Refused(*faults)
    root = ledgers or default_ledgers()
    ops = baseline_files.held_ops(root)
    if decision.kind == "codegen":
        baseline_code.promote(source, ops, right, commit=commit, name=name, accept_waived=accept_waived)
        return
    judged = {row.op_type: row.provider for row in decision.rows}
    results = baseline_files.read_results(source)
    offered = baseline_files.offers(results, ops, commit=commit, candidates=judged)
    if absent := left_out(decision, offered):
        raise Refused(*absent)
    offered = _measured(offered)
    foreign = [promotion.foreign(decision, offer) for offer in offered]
    if any(foreign):
        raise UnusableInput(*(fault for fault in foreign if fault is not None))
    for offer in offered:
        faults += promotion.verdict_faults(decision, op_type=offer.op_type, accept_waived=accept_waived)
    policy = None if accept_drift else baseline_release.read_policy(root)
    _write(offered, ops, right, name=name, faults=faults, policy=policy)


@command.command()
@_options
@click.option("--candidate", help="The provider whose times must be complete. Default: the matrix's candidate.")
@click.option(
    "--accept-partial",
    is_flag=True,
    help="Do without the shapes that were not measured, or not in the cache state of most, on purpose.",
)
def record(
    source: Path,
    ledgers: Path | None,
    commit: str,
    name: str | None,
    run_name: str,
    day: datetime | None,
    candidate: str | None,
    accept_partial: bool,
) -> None:
    """Write the first baseline of a machine, from results that had no base to be judged against.

    Refused where there is one already: from then on only a run that passed may replace it.
    Exit codes: 0 written, 1 refused, 2 unusable input.
    """
    if candidate == "":
        raise WrongUsage(Problem(what="--candidate names no provider", file="", fix="leave it out, or name one"))
    if (fault := promotion.commit_fault(commit, "--commit")) is not None:
        raise Refused(fault)
    ops = baseline_files.held_ops(ledgers or default_ledgers())
    results, named = baseline_files.read_results(source), dict.fromkeys(ops, candidate) if candidate else None
    offered = _measured(baseline_files.offers(results, ops, commit=commit, candidates=named))
    right = Right(day=_day(day), run=run_name)
    if accept_partial:
        narrowed = [offer.in_one_state() for offer in offered]
        offered = [offer for offer, _ in narrowed]
        for told in filter(None, (told for _, told in narrowed)):
            click.echo(told, err=True)
    _write(offered, ops, right, name=name, faults=[], accept_partial=accept_partial)


def _by_decision(folder: Path, *, day: datetime | None, run_name: str) -> tuple[Right, Decision]:
    decision, digest = baseline_files.read_decision(folder)
    policy = sha256(store.encode(decision.policy))
    right = Right(day=_day(day), run=run_name, decision=decision, decision_sha256=digest, policy_sha256=policy)
    return right, decision


def _worse(decision: Decision) -> list[Problem]:
    """Which rows blocked the run: one line for each op and kind."""
    blocking = msgspec.structs.replace(decision, rows=tuple(row for row in decision.rows if row.verdict in BLOCKING))
    ops = sorted({row.op_type for row in blocking.rows})
    return [fault for op in ops for fault in promotion.verdict_faults(blocking, op_type=op, accept_waived=True)]


def _day(given: datetime | None) -> date:
    return (given or datetime.now(UTC)).date()


def _measured(offered: Iterable[Offer]) -> list[Offer]:
    """The offers of ops that were measured at all; the others are told. Raises UnusableInput if none was."""
    found = []
    for offer in offered:
        if measured(offer):
            found.append(offer)
        else:
            said = ", ".join(sorted({row.benchmark_status for row in offer.own})) or "no row"
            click.echo(f"{offer.op_type}: {offer.candidate} was not measured ({said}); its baseline stays", err=True)
    if not found:
        what = "the candidate was measured on no op"
        raise UnusableInput(Problem(what=what, file=store.RESULTS_FILE, fix="measure first"))
    return found


def _write(
    offered: list[Offer],
    ops: dict[str, Op],
    right: Right,
    *,
    name: str | None,
    faults: list[Problem],
    policy: Policy | None = None,
    accept_partial: bool = False,
) -> None:
    """Looks at every op first, at its drift if there is a policy, and writes if none is refused. Raises Refused."""
    ready: list[tuple[Place, Provenance, bytes]] = []
    for offer in offered:
        faults += promotion.faults(offer, accept_partial=accept_partial)
        if not offer.timed:
            continue
        baseline_files.unchanged(ops[offer.op_type].folder)
        if policy is not None:
            faults += baseline_release.drift_faults(ops[offer.op_type], offer, name=name, policy=policy)
        found = baseline_files.place(ops[offer.op_type].folder, name or str(offer.timed[0].arch))
        kept = offer.said()
        data = baseline_files.encoded(kept.rows)
        faults += _place_faults(found, kept, right, digest=sha256(data))
        ready.append((found, of_times(kept, right, sha256=sha256(data), old=baseline_files.old_rows(found)), data))
    if faults:
        raise Refused(*faults)
    for found, line, data in ready:
        baseline_files.store_one(found, line, data)


def _place_faults(found: Place, offer: Offer, right: Right, *, digest: str) -> list[Problem]:
    last = found.last("times")
    if last is None:
        return []
    folder = str(found.folder)
    if right.decision is None:
        what = f"a baseline exists, of {last.commit[:12]}"
        return [Problem(what=what, file=folder, fix="replace it with 'gate baseline promote' and a run that passed")]
    older = {line.sha256 for line in found.lines if line.contents == "times"} - {last.sha256}
    if digest in older:
        return [Problem(what="these results were the baseline before", file=folder, fix="measure again")]
    return promotion.stored_faults(last, offer, folder=folder)


command.add_command(baseline_show.show)
command.add_command(baseline_show.diff)
command.add_command(baseline_release.pin)
command.add_command(baseline_release.drift_command)
