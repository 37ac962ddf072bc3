"""`gate baseline pin` and `drift`: a release that stays, beside the moving baseline, and how far head is from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.analysis.drift import OpDrift, drift, sentences
from gate.commands import baseline_files, judge_files
from gate.commands.baseline_files import Op, Place, Refused
from gate.commands.baseline_table import drifts
from gate.commands.run import POLICY_FILE, default_ledgers
from gate.commands.telling import say, say_json, tell
from gate.ledgers.baselines import Offer
from gate.ledgers.ratios import usable
from gate.model.ledger import Ledger
from gate.model.outcome import Results
from gate.model.policy import Policy
from gate.model.problem import Exit, Problem, UnusableInput, WrongUsage
from gate.model.text import counted

FOLDER = click.Path(path_type=Path, file_okay=False)
INPUT = click.Path(path_type=Path)
DAY = click.DateTime(["%Y-%m-%d"])
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def _shared(function: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option("--ledgers", type=FOLDER, help="Frozen ledgers. Default: ./frozen_ledgers or ours."),
        click.option("--op", "ops", multiple=True, help="An op; may be repeated. Default: all."),
        click.option("--name", help="Folder under baselines/. Default: the architecture, or all of them for pin."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@_shared
@click.option("--release", required=True, help="Name of the release, such as v0.5.0.")
@click.option("--date", "day", type=DAY, help="The day to write down. Default: today, UTC.")
def pin(ledgers: Path | None, ops: tuple[str, ...], name: str | None, release: str, day: datetime | None) -> None:
    """Keep the times that are the baseline now as a release, which later runs are held against for slow drift.

    It lies in release/NAME/ beside the baseline and is never replaced: the next release gets a name of its own.
    Exit codes: 0 pinned (or already so), 1 the name is taken, 2 nothing to pin.
    """
    if not NAME.fullmatch(release):
        what = f"{release!r} is no name of a release"
        raise WrongUsage(Problem(what=what, file="", fix="letters, digits, '.', '_', '+' and '-', such as v0.5.0"))
    known = _chosen(baseline_files.held_ops(ledgers or default_ledgers()), ops)
    pinned = (day or datetime.now(UTC)).date()
    ready, taken = [], []
    for op in known.values():
        baseline_files.unchanged(op.folder)
        for found in baseline_files.places(op.folder):
            last, data = found.last("times"), found.stored("times")
            if last is None or data is None or (name is not None and found.folder.name != name):
                continue
            old = [one for one in baseline_files.releases(found) if one.folder.name == release]
            if old and old[0].stored("times") != data:
                what = f"release {release} is pinned already, with other times"
                taken.append(Problem(what=what, file=str(old[0].folder), fix="give the new release another name"))
            line = msgspec.structs.replace(last, release=release, pinned=pinned)
            place = Place(op=op.folder, folder=found.folder / baseline_files.RELEASE / release, lines=(line,))
            ready.append((place, data, bool(old)))
    if taken:
        raise Refused(*taken)
    if not ready:
        what = "no baseline of times to pin"
        raise UnusableInput(Problem(what=what, file=str(ledgers or ""), fix="record or promote one first"))
    for place, data, there in ready:
        if not there:
            baseline_files.pin(place, place.lines[0], data)
        line = place.lines[0]
        times = counted(line.timed, "time")
        say(f"{place.folder}: {'already pinned' if there else 'pinned'}, {times} of {line.commit[:12]}")


@click.command("drift")
@_shared
@click.option("--from", "source", type=INPUT, required=True, help="Results: of `replay` or `artifact take`.")
@click.option("--release", help="Name of the release. Default: the one pinned last.")
@click.option("--policy", "policy_file", type=INPUT, help="policy.toml. Default: that of the ledgers, if there is one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on standard output.")
def drift_command(
    ledgers: Path | None,
    ops: tuple[str, ...],
    name: str | None,
    source: Path,
    release: str | None,
    policy_file: Path | None,
    as_json: bool,
) -> int:
    """Compare the candidate's times with a pinned release, the move of the untouched baselines taken out.

    An op has drifted when its rows together, or one row by itself, are slower than the policy's [drift] allows, even
    where each step passed. An op that has a release is held against it with all rows that the release has; --op names
    the ops of a run that measured only some.

    Exit codes: 0 none has drifted, 1 one has, 2 an op, or a row of it, could not be held against its release.
    """
    root = ledgers or default_ledgers()
    known = baseline_files.read_ops(root)
    chosen, policy = _chosen(known, ops), read_policy(root, policy_file)
    offered = baseline_files.offers(baseline_files.read_results(source), known, commit="")
    by_op = {offer.op_type: offer for offer in offered}
    archs = {row.arch for offer in offered for row in offer.rows if usable(row)}
    found: list[tuple[str, OpDrift]] = []
    without = []
    for op_type, op in chosen.items():
        offer = by_op.get(op_type) or baseline_files.nothing_of(op)
        pins = pins_of(op, offer, name=name, release=release) or _elsewhere(op, archs, name=name, release=release)
        if pins:
            found.append((pins[-1].folder.name, against(pins[-1], op, offer=offer, policy=policy)))
        elif op_type in ops or op_type in by_op:
            without.append(op_type)
            say(f"{op_type}: no release{f' {release}' if release else ''} is pinned for this machine", err=True)
    if not found:
        what = "no op can be held against a release" + (f" {release}" if release else "")
        raise UnusableInput(Problem(what=what, file=str(root), fix="'gate baseline pin --release NAME' pins one"))
    if as_json:
        say_json([{"release": name, **msgspec.to_builtins(one)} for name, one in found])
    else:
        for line in drifts(found):
            say(line)
    code = _told(found)
    return code or (Exit.NO_VERDICT if {*without} & {*ops} else Exit.PASS)


def _told(found: Iterable[tuple[str, OpDrift]]) -> int:
    """One line for each op that drifted or was not judged in full, and the exit code."""
    code: int = Exit.PASS
    for release, one in found:
        for sentence in sentences(one, release):
            tell(Problem(what=sentence, file=one.op_type))
        if one.why:
            tell(Problem(what=_not_held(one, release), file=one.op_type))
        if one.state == "unjudged":
            code = code or Exit.NO_VERDICT
        elif one.state == "drifted":
            code = Exit.BLOCK
    return code


def _not_held(found: OpDrift, release: str) -> str:
    return f"{'held only in part' if found.rows else 'not held'} against release {release}: {found.why}"


def _chosen(known: Mapping[str, Op], ops: tuple[str, ...]) -> dict[str, Op]:
    if unknown := sorted(set(ops) - known.keys()):
        what = f"no op {', '.join(unknown)}; the ops are {', '.join(sorted(known))}"
        raise WrongUsage(Problem(what=what, file=""))
    return {op: known[op] for op in ops or sorted(known)}


def read_policy(root: Path, given: Path | None = None) -> Policy:
    """The policy given, or that of the ledgers, or the defaults. Raises UnusableInput."""
    return judge_files.read_policy(judge_files.beside(root, POLICY_FILE, given=given))


def pins_of(op: Op, offer: Offer, *, name: str | None, release: str | None = None) -> list[Place]:
    """The releases that the rows can be held against, whoever is their candidate; the one pinned last at the end."""
    archs = sorted({row.arch for row in offer.rows if usable(row) and row.arch})
    places = [baseline_files.place(op.folder, folder) for folder in ([name] if name else archs)]
    found = [one for place in places for one in baseline_files.releases(place)]
    return [one for one in found if release is None or one.folder.name == release]


def _elsewhere(op: Op, archs: Collection[str | None], *, name: str | None, release: str | None) -> list[Place]:
    """The releases of an op that has no row on a machine they were pinned for: last those of the run's architectures,
    oldest pin first.
    """
    found = [
        one
        for place in baseline_files.places(op.folder)
        if name is None or place.folder.name == name
        for one in baseline_files.releases(place)
        if one.lines and release in (None, one.folder.name)
    ]
    return sorted(found, key=lambda one: (one.lines[-1].arch in archs, str(one.lines[-1].pinned)))


def against(pinned: Place, op: Op, *, offer: Offer, policy: Policy) -> OpDrift:
    """The offer's rows against a pinned release. Raises UnusableInput where the release cannot be read."""
    line = pinned.last("times")
    results = store.read_results(pinned.folder / store.RESULTS_FILE)
    if line is None or results.problems:
        raise UnusableInput(*(results.problems or [Problem(what="no times", file=str(pinned.folder))]))
    return drift(
        Ledger(shapes=op.shapes),
        msgspec.structs.replace(op.matrix, candidate_provider=line.candidate),
        release=results,
        head=Results(outcomes=offer.rows),
        policy=policy,
    )


def drift_faults(op: Op, offer: Offer, *, name: str | None, policy: Policy) -> list[Problem]:
    """Why an offer is too far from the release pinned last to move the baseline there; none without a release."""
    pins = pins_of(op, offer, name=name)
    if not pins:
        return []
    found = against(pins[-1], op, offer=offer, policy=policy)
    if found.state == "unjudged":
        say(f"{offer.op_type}: {_not_held(found, pins[-1].folder.name)}", err=True)
    fix = "--accept-drift takes it over on purpose"
    return [Problem(what=what, file=offer.op_type, fix=fix) for what in sentences(found, pins[-1].folder.name)]
