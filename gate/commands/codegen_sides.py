"""Where head and base of the main job come from: kernels and a compiler each, or records that lie there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.binding.families.ledger import SHAPES
from gate.codegen.keys import OPS
from gate.commands import machine_code, printed
from gate.commands.codegen_inputs import (
    COMPILED,
    FOLDER,
    Kernels,
    cache_home,
    comparable,
    compiled,
    compiler_of,
    kernels_of,
    limit_options,
    python_of,
    read_records,
)
from gate.commands.telling import say
from gate.model.codegen import CodegenRecord, Toolchain
from gate.model.decision import Command
from gate.model.problem import Problem, WrongUsage

# Beside the records of head in the folder of a run.
BASE_FOLDER = "base_results"
PATHS = ("kernels", "flydsl_checkout", "base", "base_checkout")
HEAD_OPTIONS = ("python", "wheel", "kernels", "flydsl_checkout")
POLICY_FILE = "policy.toml"
USUAL_ARCH = "gfx950"
SAME_SIDES = "base and head are the same kernels and the same flydsl, so nothing can differ"
COMPILED_BASE = ("base_checkout", "base_python", "base_wheel")


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What is compiled for one side: its kernels, and the interpreter whose flydsl compiles them."""

    kernels: Kernels
    python: str


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """Head, and base: compiled now, or recorded in a folder; without either it is what the ledgers hold.

    `limits` are the values of `limit_options`, `given` the options that named either side.
    """

    head: Side
    base: Side | Path | None
    limits: dict[str, Any]
    given: tuple[str, ...]

    @property
    def ops(self) -> tuple[str, ...]:
        """The ops that head's kernels have code for, whatever the ledgers hold."""
        return tuple(SHAPES if self.head.kernels.is_checkout else OPS)


def side_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name head and base."""
    options = [
        click.option("--python", help="Interpreter whose flydsl is judged. Default: this one."),
        click.option("--wheel", help="A flydsl version instead, installed once into a managed environment."),
        click.option("--kernels", type=FOLDER, help="Kernels to compile. Default: the gate's canaries."),
        click.option("--flydsl-checkout", type=FOLDER, help="A FlyDSL checkout: its kernels instead."),
        click.option("--base", help="Folder of base's records; by default the ledgers'. With --replay: SPEC of base."),
        click.option("--base-checkout", type=FOLDER, help="Compile base now, from this FlyDSL checkout."),
        click.option("--base-python", help="Compile base now, with the flydsl of this interpreter."),
        click.option("--base-wheel", help="Compile base now, with this flydsl version."),
    ]
    for option in reversed(options):
        function = option(function)
    return limit_options(function)


def outside(given: Mapping[str, Any], folders: Iterable[Path]) -> None:
    """Raises WrongUsage when an input lies in one of the folders that a run clears."""
    cleared = [folder.resolve() for folder in folders]
    for name in PATHS:
        place = given[name].resolve() if given[name] is not None else None
        if place is not None and any(place.is_relative_to(folder) for folder in cleared):
            what = f"--{name.replace('_', '-')} lies in a folder that this run clears"
            raise WrongUsage(Problem(what=what, file=str(given[name]), fix="name another --out"))


def sides_of(given: Mapping[str, Any]) -> Sides:
    """Head and base from the values of `side_options`; what only base's option names is as for head.

    Raises WrongUsage for options that exclude each other, UnusableInput for a folder or a wheel that is of no use.
    """
    named = tuple(name for name in ("base", *COMPILED_BASE) if given[name] is not None)
    if "base" in named and len(named) > 1:
        what = f"--base and --{named[1].replace('_', '-')} exclude each other: base is recorded, or compiled now"
        raise WrongUsage(Problem(what=what, file=""))
    if given["base_checkout"] is not None and given["flydsl_checkout"] is None:
        raise WrongUsage(Problem(what="--base-checkout needs --flydsl-checkout, the kernels of head", file=""))
    head = Side(
        kernels=kernels_of(given["kernels"], given["flydsl_checkout"]),
        python=python_of(given["python"], given["wheel"]),
    )
    limits = {name: given[name] for name in ("arch", "jobs", "timeout", "installed_torch")}
    every = (*(name for name in HEAD_OPTIONS if given[name] is not None), *named)
    base = _base(given, named, head)
    if isinstance(base, Path):
        read_records(base, limits["arch"])  # A folder of no use is told before minutes of compiling.
    return Sides(head=head, base=base, limits=limits, given=every)


def _base(given: Mapping[str, Any], named: tuple[str, ...], head: Side) -> Side | Path | None:
    if not set(named) & set(COMPILED_BASE):
        folder: Path | None = given["base"]
        return folder
    other_compiler = given["base_python"] or given["base_wheel"]
    return Side(
        kernels=kernels_of(None, given["base_checkout"]) if given["base_checkout"] else head.kernels,
        python=python_of(given["base_python"], given["base_wheel"]) if other_compiler else head.python,
    )


def head_records(work: machine_code.Plan, sides: Sides, *, out: Path, resume: bool) -> dict[str, CodegenRecord]:
    """The records of head, compiled now and written under `out`; with `resume` what is there is kept."""
    how = compiler_of(sides.head.kernels, sides.head.python, sides.limits)
    toolchain = msgspec.structs.replace(machine_code.find_toolchain(how), kernels_commit=sides.head.kernels.commit)
    cache = compiled_folder(out)
    if not resume:
        store.remove_folder(cache)
    records = machine_code.record(work.distinct(), how, toolchain=toolchain, cache=cache)
    machine_code.write_records(out / "results", records)
    machine_code.write_isa(out / "isa", records, cache=cache)
    return {one.compile_key: one for one in records}


def base_records(
    work: machine_code.Plan, sides: Sides, *, ledgers: Path, out: Path, head: Mapping[str, CodegenRecord]
) -> dict[str, CodegenRecord]:
    """The records of base for the keys of head: compiled now through the user's cache, or read.

    None where the ledgers hold no baseline yet. Raises UnusableInput for a folder that was named and holds none, and
    where base is of another kind of kernels or for another target than head.
    """
    if isinstance(sides.base, Side):
        records, _ = compiled(work.distinct(), sides.base.kernels, sides.base.python, sides.limits)
        machine_code.write_records(out / BASE_FOLDER, records)
        if _toolchains(records) == _toolchains(head.values()):
            say(f"{SAME_SIDES}; for changed kernels name the records of the unchanged ones with --base", err=True)
        return {one.compile_key: one for one in records}
    arch = sides.limits["arch"]
    if sides.base is not None:
        found = read_records(sides.base, arch)
    else:
        # The ledgers of all ops, or the folder of one.
        stored = f"baselines/{arch}/{store.CODEGEN_FILE}"
        found = store.read_codegen(sorted([*ledgers.glob(f"*/{stored}"), *ledgers.glob(stored)]))
    comparable(found, head)
    return {key: one for key, one in found.items() if key in head}


def _toolchains(records: Iterable[CodegenRecord]) -> set[Toolchain]:
    return {msgspec.structs.replace(one.toolchain, kernels_commit=None) for one in records}


def compiled_folder(out: Path) -> Path:
    """Where the assembly of head is kept."""
    return out / COMPILED


def assembly_folders(out: Path) -> tuple[Path, ...]:
    """Where the assembly of either side may lie."""
    return compiled_folder(out), cache_home() / "codegen"


def repeating(
    commands: Iterable[Command], sides: Sides, *, ledgers: Path, policy: Path | None = None
) -> tuple[Command, ...]:
    """The commands of a decision with the sides, ledgers and limits of this run; places are variables: a decision
    holds no path. `policy` is the file that was read."""
    place = printed.ledgers_of_run(ledgers)
    arch = sides.limits["arch"]
    of_arch = "" if arch == USUAL_ARCH else f" --arch {arch}"
    run = "".join(f' --{name.replace("_", "-")} "${name.upper()}"' for name in sides.given)
    run += of_arch + (" --torch" if sides.limits["installed_torch"] else "")
    run += f" --ledgers {place}" if place != printed.STORED else ""
    show = of_arch
    if policy is not None:
        own = policy == ledgers / POLICY_FILE
        run += "" if own else ' --policy "$POLICY"'
        show += f" --policy {printed.inside(place, POLICY_FILE)}" if own else ' --policy "$POLICY"'
    recorded = _recorded(sides, place, ledgers, arch)
    return tuple(_with_sides(one, run=run, show=show, recorded=recorded) for one in commands)


def _recorded(sides: Sides, place: str, ledgers: Path, arch: str) -> str:
    """Where the records of base lie for `gate codegen show`."""
    if isinstance(sides.base, Side):
        return f"gate-again/{BASE_FOLDER}"
    if sides.base is not None:
        return '"$BASE"'
    return printed.inside(place, f"baselines/{arch}") if (ledgers / store.LEDGER_FILE).is_file() else place


def _with_sides(command: Command, *, run: str, show: str, recorded: str) -> Command:
    line, what = command.line, command.what
    if line.startswith("gate run "):
        line += run
    elif line.startswith("gate codegen show "):
        line = line.replace(f"--base {printed.STORED}", f"--base {recorded}") + show
    names = sorted(set(re.findall(r'"\$([A-Z_]+)', line)))
    if names and line != command.line:
        what += f"; {' and '.join(names)}: what this run was given"
    return Command(what=what, line=line)
