"""Where the versions of a bisection come from: commits of a repository, or wheels; and how one becomes an arm."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from gate import store
from gate.codegen import wheels
from gate.model.problem import GateError, Problem, UnusableInput, WrongUsage
from gate.replay.arms import ArmSpec, parse_spec

GIT_SECONDS = 300.0
READY = ".gate-ready"


class Unbuildable(Exception):
    """A version cannot be had or built; the message says why."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version: its name (a commit's hash, a wheel's version) and what it says of itself."""

    name: str
    subject: str = ""

    @property
    def short(self) -> str:
        """For people."""
        return self.name[:12]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The versions, oldest (good) first, and what makes one ready: its folder of sources, and its arm."""

    kind: str
    versions: tuple[Version, ...]
    make: Callable[[int], tuple[Path, ArmSpec]]


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """How a commit becomes an arm: `setup` is run in its tree, `spec` is the arm with {tree} for the folder."""

    repo: Path
    folder: Path
    setup: str | None = None
    spec: str = "path={tree}"
    setup_s: float = 1800.0


def commits(good: str, bad: str, build: Build) -> Source:
    """The commits from good to bad along first parents. Raises WrongUsage when good is no ancestor of bad."""
    first, last = _resolve(build.repo, good), _resolve(build.repo, bad)
    listed = _git(build.repo, "log", "--first-parent", "--reverse", "--format=%H %s", f"{first}..{last}").splitlines()
    base = _git(build.repo, "log", "-1", "--format=%H %s", first)
    versions = [_version(line) for line in (base, *listed)]
    if len(versions) < 2 or not _is_ancestor(build.repo, first, last):
        what = f"{good} is not an older commit on the line of {bad}"
        raise WrongUsage(Problem(what=what, file=str(build.repo), fix="give --good an ancestor of --bad"))
    names = tuple(versions)

    def make(index: int) -> tuple[Path, ArmSpec]:
        return make_commit(names[index], build)

    return Source(kind="commits", versions=names, make=make)


def _version(line: str) -> Version:
    name, _, subject = line.partition(" ")
    return Version(name=name, subject=subject)


def _git(repo: Path, *arguments: str, errors: str = "replace") -> str:
    """What git prints; `errors` as of bytes.decode, since subjects and names of files are in any encoding."""
    command = ["git", "-C", str(repo), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors=errors, timeout=GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnusableInput(Problem(what=f"git cannot be run: {error}", file=str(repo))) from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["git failed"])[-1]
        raise UnusableInput(Problem(what=said[:200], file=str(repo), fix="name a git repository and its commits"))
    return done.stdout.strip()


def _resolve(repo: Path, name: str) -> str:
    """The hash of a commit. Raises UnusableInput for another folder or name."""
    _git(repo, "rev-parse", "--git-dir")
    try:
        return _git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except UnusableInput:
        what = f"{name!r} is no commit here"
        fix = "see git log; in a shallow clone, git fetch --unshallow"
        raise UnusableInput(Problem(what=what, file=str(repo), fix=fix)) from None


def _is_ancestor(repo: Path, first: str, last: str) -> bool:
    command = ["git", "-C", str(repo), "merge-base", "--is-ancestor", first, last]
    return subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False).returncode == 0


def make_commit(version: Version, build: Build) -> tuple[Path, ArmSpec]:
    """The commit's tree, built once, and its arm. Raises Unbuildable.

    A clone of its own and not a worktree: nothing is written into the user's repository.
    """
    tree = build.folder / "trees" / version.name[:16]
    if not (tree / READY).is_file():
        store.remove_folder(tree)
        tree.parent.mkdir(parents=True, exist_ok=True)
        try:
            clone = ["clone", "--quiet", "--shared", "--no-checkout", str(build.repo.resolve()), str(tree.resolve())]
            _git(build.repo, *clone)
            _git(tree, "checkout", "--quiet", "--detach", version.name)
        except GateError as error:
            raise Unbuildable(f"{version.short} cannot be checked out: {error.problems[0].what}") from None
        if build.setup is not None:
            _set_up(version, tree, build)
        (tree / READY).touch()
    try:
        spec = parse_spec(build.spec.replace("{tree}", str(tree.resolve())), side="head")
    except WrongUsage as error:
        raise Unbuildable(f"{version.short}: {error.problems[0].what}") from None
    return tree, dataclasses.replace(spec, commit=version.name)


def tracked(tree: Path) -> dict[str, str]:
    """The files of the commit that a tree stands at, with mode, kind and hash that Git keeps of each."""
    listed = _git(tree, "ls-tree", "-r", "-z", "HEAD", errors="surrogateescape")
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return {name: kept for kept, _, name in entries}


def _set_up(version: Version, tree: Path, build: Build) -> None:
    log = build.folder / "logs" / f"setup-{version.short}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GATE_COMMIT": version.name}
    assert build.setup is not None
    try:
        with log.open("wb") as file:
            done = subprocess.run(
                build.setup, shell=True, cwd=tree, env=environment, stdout=file, stderr=file,
                timeout=build.setup_s, check=False,
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unbuildable(f"{version.short}: --setup ran past {build.setup_s:g} s") from None
    if done.returncode:
        lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        last = f": {lines[-1][:160]}" if lines else ""
        raise Unbuildable(f"{version.short}: --setup exited with code {done.returncode}{last}; see {log}")


def wheel_versions(good: str, bad: str, *, listed: tuple[str, ...], home: Path, arm: ArmSpec) -> Source:
    """FlyDSL wheels from good to bad: all that the index has, or those of `listed`.

    A wheel's packages come in front of those of `arm`, whose interpreter has torch. Raises WrongUsage.
    """
    try:
        names = listed or wheels.between(f"{good}..{bad}", wheels.published())
    except wheels.WheelError as error:
        raise WrongUsage(Problem(what=str(error), file="", fix="name versions that the index has")) from None
    if len(names) < 2 or names[0] != good or names[-1] != bad:
        what = f"the wheels must begin with {good} and end with {bad}"
        raise WrongUsage(Problem(what=what, file="", fix="name two or more, oldest first"))
    versions = tuple(Version(name=name) for name in names)

    def make(index: int) -> tuple[Path, ArmSpec]:
        try:
            python = Path(wheels.environment(versions[index].name, home))
        except wheels.WheelError as error:
            raise Unbuildable(f"flydsl {versions[index].name} does not install: {error}") from None
        folder = python.parent.parent
        places = sorted(folder.glob("lib/python*/site-packages"))
        if not places:
            raise Unbuildable(f"flydsl {versions[index].name}: no packages in {folder}")
        path = (str(places[0]), *arm.path)
        return folder, dataclasses.replace(arm, path=path, commit=versions[index].name)

    return Source(kind="wheels", versions=versions, make=make)
