"""`gate artifact`: what the measuring job hands over, and how the trusted job takes it in and judges it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from gate import store
from gate.commands import artifact_judge, artifact_taken, judge_files, judged
from gate.commands.artifact_taken import PLACES
from gate.commands.github_options import connect, our_run, run_options, told
from gate.commands.run import default_ledgers
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.publish import archive, bundle, scope
from gate.publish.hub import GitHub
from gate.publish.target import base_of, resolve
from gate.publish.values import SHA, Target
from gate.replay import run_folder
from gate.replay.journal import LOCK

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
INPUT = click.Path(path_type=Path)


@click.group("artifact", short_help="Hand results over to the trusted job, take them in, judge them.")
def command() -> None:
    """Hand results over to the trusted job, take them in, judge them."""


@command.command()
@click.option("--head-sha", required=True, help="The commit that was measured.")
@click.option("--base-sha", help="The commit it was measured against.")
@click.option("--head", type=INPUT, help="Results of head: a file, or a folder with one per op.")
@click.option("--base", type=INPUT, help="Results of base.")
@click.option("--head-code", type=INPUT, help="Codegen records of head.")
@click.option("--base-code", type=INPUT, help="Codegen records of base.")
@click.option("--confirm", type=INPUT, nargs=2, metavar="BASE HEAD", help="Results of the confirming session.")
@click.option("--out", type=FOLDER, required=True, help=f"Folder that gets {archive.MEMBER}, and nothing else.")
def pack(
    head_sha: str,
    base_sha: str | None,
    head: Path | None,
    base: Path | None,
    head_code: Path | None,
    base_code: Path | None,
    confirm: tuple[Path, Path] | None,
    out: Path,
) -> None:
    """Put results and codegen records into the one file that is uploaded."""
    sources = {"head_results": head, "base_results": base, "head_code": head_code, "base_code": base_code}
    if confirm is not None:
        sources |= {"confirm_base": confirm[0], "confirm_head": confirm[1]}
    parts: dict[str, list[Any]] = {
        part: read_part(part, path) for part, path in sources.items() if path is not None and path.exists()
    }
    try:
        data = bundle.encode(parts, head_sha=head_sha, base_sha=base_sha)
    except ValueError as error:
        raise UnusableInput(Problem(what=str(error), file=str(out))) from None
    store.write_bytes(out / archive.MEMBER, data)
    click.echo(", ".join(f"{len(rows)} {part}" for part, rows in parts.items()) or "nothing was measured", err=True)


def read_part(part: str, path: Path) -> list[Any]:
    """The rows of one part. Raises UnusableInput for a refused row: nothing is dropped on the way."""
    if bundle.CONTRACTS[part] == "codegen_records":
        return list(store.read_codegen(judge_files.found(path, store.CODEGEN_FILE)).values())
    results = judge_files.merged(store.read_results(file) for file in judge_files.found(path, store.RESULTS_FILE))
    if results.problems:
        raise UnusableInput(*results.problems)
    return list(results.outcomes)


@command.command()
@run_options
@click.option("--name", default=archive.NAME, show_default=True, help="The artifact's exact name.")
@click.option("--out", type=FOLDER, required=True, help="Folder that gets the checked rows.")
@click.option("--decision", type=FOLDER, required=True, help="Folder that gets a no-verdict if nothing can be taken.")
def take(
    repo: str | None,
    run_id: int | None,
    attempt: int | None,
    workflow: str,
    name: str,
    out: Path,
    decision: Path,
) -> int:
    """Take the results of a workflow run in, as untrusted input: capped, strict, and held against every schema.

    Exit codes: 0 taken, 2 not taken (then --decision holds a no-verdict that says why). A change that touches no
    kernel needs no results: it leaves a pass that says so. Where another gate writes to either folder, both stay as
    they are. What lies in --out is removed once there is something to put there; a folder that holds anything else
    than results that were taken in is refused.
    """
    if decision.resolve().is_relative_to(out.resolve()):
        what = "--decision lies in --out, which is cleared"
        raise WrongUsage(Problem(what=what, file=str(decision), fix="name another --decision"))
    if run_id is None:
        judged.forget(decision)
        raise WrongUsage(Problem(what="take needs --run", file="", fix="name the workflow run that measured"))
    hub = connect(repo)
    if not (out / LOCK).exists():  # Somebody's own folder gets no lock either.
        artifact_taken.spare(out)
    with store.output_lock(decision), store.output_lock(out):
        run_folder.spare(decision)
        artifact_taken.spare(out)
        judged.clear(decision)
        # Stands where this process is killed, so that rows of an earlier run are not judged instead.
        judged.write(artifact_taken.not_taken((Problem(what="taking them in was cut", file=""),)), decision)
        try:
            taken = take_in(hub, run_id, attempt, workflow=workflow, name=name)
            artifact_taken.clear(out)
            rows = {} if taken is None else {part: found for part, found in taken.rows.items() if found}
            for part, found in rows.items():
                store.write_jsonl(out / PLACES[part], found)
        except UnusableInput as error:
            judged.write(artifact_taken.not_taken(error.problems), decision)
            raise
        if taken is None:
            judged.write(artifact_judge.nothing_changed(), decision)
            click.echo("no kernel changed: nothing to judge", err=True)
            return 0
        judged.clear(decision)
    click.echo(", ".join(f"{len(found)} {part}" for part, found in rows.items()) or "no rows", err=True)
    return 0


def take_in(hub: GitHub, run_id: int, attempt: int | None, *, workflow: str, name: str) -> bundle.Bundle | None:
    """The bundle of a run; None where there is none and no kernel changed. Raises UnusableInput."""
    run = our_run(hub, run_id, attempt, workflow=workflow)
    with told():
        target = resolve(run, hub)
        try:
            entries = hub.artifacts(run_id)
            if run.conclusion == "success" and not entries and touches_no_kernel(hub, target):
                return None
            chosen = archive.choose(entries, run_id=run_id, name=name)
            data = archive.member(archive.download(hub, chosen))
            return bundle.decode(data, head_sha=target.sha)
        except archive.NotTaken as error:
            ended = "" if run.conclusion == "success" else f" (the run ended: {run.conclusion})"
            raise UnusableInput(Problem(what=f"{error}{ended}", file="", fix="see the run's log")) from None


def touches_no_kernel(hub: GitHub, target: Target) -> bool:
    """Whether the API says that nothing changed which a kernel could see."""
    base = base_of(target.run, target, hub)
    return base is not None and bool(SHA.fullmatch(base)) and scope.harmless(hub.changed_files(base, target.sha))


@command.command("judge")
@click.option("--from", "source", type=FOLDER, required=True, help="What `take` left.")
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl. Default: ./frozen_ledgers or ours.")
@click.option("--policy", type=FILE, help="Policy. Default: policy.toml beside the ledgers, if there.")
@click.option("--waivers", type=FILE, help="Waivers. Default: waivers.toml beside the ledgers, if there.")
@click.option("--arch", default="gfx950", show_default=True, help="Which stored baseline, where no base was measured.")
@click.option("--out", type=FOLDER, required=True, help="Folder for decision.json and the texts.")
def judge_command(
    source: Path, ledgers: Path | None, policy: Path | None, waivers: Path | None, arch: str, out: Path
) -> int:
    """Judge what was taken in, against ledgers, matrices, policy and waivers of the trusted side.

    Where `take` left a verdict in --out instead of rows, that one is repeated. Exit codes: 0 pass, 1 block, 2 no
    verdict.
    """
    if artifact_taken.left(source, out):
        return artifact_judge.told_before(out)
    root = ledgers or default_ledgers()
    places = {part: source / place for part, place in PLACES.items()}
    with judged.anew(out):
        try:
            artifact_taken.check(source)
            decision = artifact_judge.decide(
                places, root=root, policy=policy, waivers=waivers, arch=arch, today=datetime.now(UTC).date()
            )
        except UnusableInput as error:
            judged.write(judged.unusable(error.problems), out)
            raise
        judged.write(decision, out)
    judged.show(decision, out)
    return judged.EXITS[decision.gate]


@command.command("scope")
@click.argument("base")
@click.argument("head")
@click.option("--folder", type=FOLDER, default=Path(), help="The checkout that holds both commits.")
def scope_of(base: str, head: str, folder: Path) -> None:
    """Print kernels=true or kernels=false: whether the change can touch a kernel at all.

    Only spares the machines: the trusted job asks GitHub again.
    """
    import subprocess

    argv = ["git", "-C", os.fspath(folder), "diff", "--name-only", "--no-renames", "-z", f"{base}...{head}"]
    done = subprocess.run(argv, capture_output=True, check=False)
    files = [name for name in done.stdout.decode("utf-8", "replace").split("\0") if name]
    harmless = done.returncode == 0 and scope.harmless(files)
    click.echo(f"kernels={'false' if harmless else 'true'}")
