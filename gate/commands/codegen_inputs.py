"""What the codegen verbs ask for in common: kernels, compiler and limits; and where recorded files lie."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import replay, store
from gate.analysis.policy_text import policy_from
from gate.codegen import checkout, device_libs, toolchains, wheels
from gate.codegen.keys import OPS, CompileCase, Unsupported, compile_case
from gate.commands import machine_code
from gate.commands.amounts import Amount
from gate.model.codegen import CodegenRecord, CodegenThresholds, Toolchain
from gate.model.occupancy import LDS
from gate.model.policy import CodegenPolicy, Policy
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.replay.run_folder import results_of

FOLDER = click.Path(path_type=Path, file_okay=False)
# Where a run keeps the assembly of its head, beside its results.
COMPILED = "compiled"
ARCHES = tuple(LDS)
FILE = click.Path(path_type=Path, dir_okay=False)
COMMAND_SECONDS = 20.0


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """A source of kernels: the gate's own, a folder like them, or a FlyDSL checkout."""

    folder: Path
    commit: str | None = None

    @property
    def is_checkout(self) -> bool:
        """Whether the kernels are FlyDSL's own."""
        return toolchains.is_checkout(self.folder)

    def case_of(self, shape: Shape) -> CompileCase | Unsupported:
        """The case that serves a ledger shape with these kernels."""
        return checkout.compile_case(shape) if self.is_checkout else compile_case(shape)


def hold(folder: Path | None) -> None:
    """Holds the folder, if given, until the command ends. Raises UnusableInput if another process does."""
    if folder is not None:
        click.get_current_context().with_resource(store.output_lock(folder))


def hold_ops(ledgers: Path, ops: Iterable[str]) -> None:
    """Holds the folders of ops among frozen ledgers, as `hold`."""
    click.get_current_context().with_resource(store.ledgers_lock(ledgers / op for op in ops))


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say for what and how fast to compile."""
    options = [
        click.option("--arch", type=click.Choice(ARCHES), default="gfx950", show_default=True, help="Target."),
        click.option("--jobs", type=click.IntRange(min=1), help="Worker processes. Default: one a core."),
        click.option("--timeout", type=Amount(min=1), default=300.0, show_default=True,
                     help="Seconds that one kernel may take to compile."),
        click.option("--torch", "installed_torch", is_flag=True, help="Use the interpreter's torch, not the stand-in."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def cache_home() -> Path:
    """Where compiled cases and managed environments are kept between runs: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "flydsl-gate"


def kernels_of(folder: Path | None, checkout_folder: Path | None) -> Kernels:
    """The kernels of --kernels or --flydsl-checkout; by default the gate's own.

    Raises WrongUsage where both are given, UnusableInput where the folder holds none.
    """
    if folder is not None and checkout_folder is not None:
        raise WrongUsage(Problem(what="--kernels and --flydsl-checkout exclude each other", file=""))
    if checkout_folder is None:
        if folder is not None and not any((folder / f"{op}.py").is_file() for op in OPS):
            fix = f"it needs one or more of {', '.join(f'{op}.py' for op in sorted(OPS))}"
            raise UnusableInput(Problem(what="no kernels in this folder", file=str(folder), fix=fix))
        return Kernels(folder=folder or toolchains.CANARIES)
    if not toolchains.is_checkout(checkout_folder):
        fix = "name the root of a FlyDSL checkout, the folder that holds kernels/"
        raise UnusableInput(Problem(what="no kernels folder here", file=str(checkout_folder), fix=fix))
    return Kernels(folder=checkout_folder, commit=commit_of(checkout_folder))


def commit_of(folder: Path, part: str = "kernels") -> str | None:
    """The commit a folder stands at, with a mark where files of `part` differ from it; None outside Git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return f"{commit}-changed" if _git(folder, "status", "--porcelain", "--", part) else commit


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def python_of(python: str | None, wheel: str | None) -> str:
    """The interpreter of --python, or the managed one of --wheel. Raises UnusableInput, WrongUsage."""
    if python and wheel:
        raise WrongUsage(Problem(what="--python and --wheel exclude each other", file=""))
    if wheel is None:
        return python or sys.executable
    try:
        return wheels.environment(wheel, cache_home())
    except wheels.WheelError as error:
        raise UnusableInput(Problem(what=f"flydsl {wheel} does not install: {error}", file="")) from None


def compiler_of(kernels: Kernels, python: str, limits: Mapping[str, Any]) -> machine_code.Compiler:
    """How to compile these kernels with this interpreter; `limits` are the values of `limit_options`."""
    return machine_code.Compiler(
        python=python,
        kernels=kernels.folder,
        arch=limits["arch"],
        jobs=limits["jobs"],
        timeout_s=limits["timeout"],
        # Our own kernels call no device library, and what they compile to must not depend on Triton being there.
        toolkit=device_libs.find(cache_home(), pythons=(python,)) if kernels.is_checkout else None,
        installed_torch=limits["installed_torch"],
    )


def compiled(
    cases: list[CompileCase], kernels: Kernels, python: str, limits: Mapping[str, Any]
) -> tuple[list[CodegenRecord], Toolchain]:
    """Compile the cases with these kernels and this interpreter, through the user's cache."""
    how = compiler_of(kernels, python, limits)
    toolchain = msgspec.structs.replace(machine_code.find_toolchain(how), kernels_commit=kernels.commit)
    return machine_code.record(cases, how, toolchain=toolchain, cache=cache_home() / "codegen"), toolchain


def compiled_triton(
    cases: list[CompileCase], python: str, limits: Mapping[str, Any], *, aiter: Path | None = None
) -> list[CodegenRecord]:
    """Compile the Triton baselines, or those of a checkout of AITER, with the interpreter's Triton or else this one's.

    Raises UnusableInput where neither has Triton, and for a folder that is no checkout of AITER.
    """
    if aiter is not None and not toolchains.is_aiter(aiter):
        fix = "name the root of a checkout of AITER"
        raise UnusableInput(Problem(what=f"no {toolchains.AITER_TRITON} folder here", file=str(aiter), fix=fix))
    kernels = aiter or Path(replay.__file__).parent
    commit = commit_of(aiter, "aiter") if aiter else None
    tried: list[str] = []
    for candidate in dict.fromkeys((python, sys.executable)):
        try:
            toolchain = toolchains.find_triton(
                python=candidate, kernels=kernels, arch=limits["arch"], kernels_commit=commit
            )
        except toolchains.ToolchainError as error:
            tried.append(str(error))
            continue
        how = machine_code.Compiler(
            python=candidate, kernels=kernels, arch=limits["arch"], jobs=limits["jobs"], timeout_s=limits["timeout"]
        )
        return machine_code.record(cases, how, toolchain=toolchain, cache=cache_home() / "codegen")
    raise UnusableInput(Problem(what=tried[0], file=""))


def read_records(path: Path, arch: str) -> dict[str, CodegenRecord]:
    """Records by compile key, from a file, a folder of `<op>/`, or a folder of ledgers with their baselines.

    Raises UnusableInput where there is none, where a line is refused, or where a key comes twice.
    """
    patterns = (f"*/{store.CODEGEN_FILE}", f"*/baselines/{arch}/{store.CODEGEN_FILE}", store.CODEGEN_FILE)
    files = [path] if path.is_file() else next(filter(None, (sorted(path.glob(p)) for p in patterns)), [])
    if not files:
        fix = results_of(path, store.CODEGEN_FILE) or "record it with 'gate codegen record'"
        raise UnusableInput(Problem(what=f"no {store.CODEGEN_FILE} for {arch}", file=str(path), fix=fix))
    return store.read_codegen(files)


def comparable(base: Mapping[str, CodegenRecord], head: Mapping[str, CodegenRecord]) -> None:
    """Raises UnusableInput when the two were compiled for different targets or from different kinds of kernels."""
    both = (*base.values(), *head.values())
    targets = {record.arch for record in both}
    if len(targets) > 1:
        raise UnusableInput(
            Problem(what=f"base and head are for different targets: {', '.join(sorted(targets))}", file="")
        )
    # Triton's baselines lie beside either kind.
    kinds = {one.toolchain.kernels == checkout.NAME for one in both if not one.toolchain.triton_version}
    if len(kinds) > 1:
        fix = "record both from --flydsl-checkout, or neither"
        raise UnusableInput(Problem(what="one side is FlyDSL's own kernels and the other is not", file="", fix=fix))


def codegen_policy(path: Path | None) -> tuple[CodegenPolicy, bool]:
    """The codegen table of a policy file, and whether it accepts what fails on both sides."""
    policy = Policy() if path is None else policy_from(store.read_toml(path), file=str(path))
    return policy.codegen, policy.coverage.accept_still_failing


def thresholds(policy: CodegenPolicy) -> CodegenThresholds:
    """What a change must exceed: the policy's numbers, and the ops that declare themselves occupancy-bound."""
    declared = CodegenThresholds().occupancy_bound | checkout.occupancy_bound() | set(policy.occupancy_bound)
    return CodegenThresholds(
        instruction_growth=policy.instruction_growth,
        vmcnt0_factor=policy.full_waits_factor,
        occupancy_bound=frozenset(declared - set(policy.not_occupancy_bound)),
    )
