"""What an arm's SPEC says: which interpreter runs it, what is on its paths, and which commit it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gate.model.problem import Problem, WrongUsage

ROCR = "ROCR_VISIBLE_DEVICES"
KEYS = ("python", "path", "ld", "commit", "flydsl", "env")
# A FlyDSL source tree keeps its built packages here (scripts/build.sh).
FLYDSL_BUILD = ("build-fly", "python_packages")
FLYDSL_LIBRARIES = ("flydsl", "_mlir", "_mlir_libs")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """One side of a comparison. `path` and `ld` go in front of PYTHONPATH and LD_LIBRARY_PATH before exec."""

    python: str = sys.executable
    path: tuple[str, ...] = ()
    ld: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    commit: str | None = None

    def environment(self, inherited: Mapping[str, str], *, gpu: str | None) -> dict[str, str]:
        """The process environment of a worker on GPU `gpu` (an entry for the runtime's visible-devices variable)."""
        merged = dict(inherited)
        for name, added in (("PYTHONPATH", self.path), ("LD_LIBRARY_PATH", self.ld)):
            entries = [*added, *filter(None, [inherited.get(name)])]
            if entries:
                merged[name] = os.pathsep.join(entries)
        if gpu is not None:
            merged.update(dict.fromkeys(selecting(inherited), gpu))
        merged.update(self.env)
        return merged


def selecting(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The variables by which one GPU is picked: those that name the GPUs there are, or that would.

    HIP counts within what ROCR_VISIBLE_DEVICES leaves, so an entry of the one means another GPU in the other.
    """
    hip = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    by_rocr = environment.get(ROCR) and not any(environment.get(name) for name in hip)
    return (ROCR,) if by_rocr else hip


def parse_spec(text: str | None, *, side: str) -> ArmSpec:
    """`python=...,path=...,ld=...,commit=...`; `path` and `ld` may repeat or hold several entries joined by `:`.

    `flydsl=DIR` stands for the paths of a FlyDSL source tree: DIR, its build tree and the build's libraries.
    `env=NAME:VALUE` sets one variable. Raises WrongUsage with what is wrong and how to say it.
    """
    values: dict[str, list[str]] = {key: [] for key in KEYS}
    for item in filter(None, (text or "").split(",")):
        key, separator, value = item.partition("=")
        if key not in KEYS or not separator or not value:
            raise _usage(side, f"{item!r} is not KEY=VALUE with one of {', '.join(KEYS)}")
        values[key].append(value)
    for tree in values["flydsl"]:
        values["path"] += [str(place) for place in flydsl_paths(Path(tree), side=side)]
        values["ld"].append(str(Path(tree).joinpath(*FLYDSL_BUILD, *FLYDSL_LIBRARIES).resolve()))
    python = values["python"][-1] if values["python"] else sys.executable
    if not (Path(python).is_file() and os.access(python, os.X_OK)):
        raise _usage(side, f"python={python} is not an executable file")
    return ArmSpec(
        python=python,
        path=_entries(values["path"], side=side),
        ld=_entries(values["ld"], side=side),
        env=tuple(_variable(item, side=side) for item in values["env"]),
        commit=values["commit"][-1] if values["commit"] else None,
    )


def flydsl_paths(tree: Path, *, side: str) -> tuple[Path, ...]:
    """The PYTHONPATH entries of a FlyDSL source tree. Raises WrongUsage when it is not built."""
    build = tree.joinpath(*FLYDSL_BUILD)
    if not build.is_dir():
        raise _usage(side, f"flydsl={tree} has no {'/'.join(FLYDSL_BUILD)}; build it with scripts/build.sh")
    return (build.resolve(), tree.resolve())


def _entries(items: list[str], *, side: str) -> tuple[str, ...]:
    entries = tuple(str(Path(entry).resolve()) for item in items for entry in item.split(os.pathsep) if entry)
    for entry in entries:
        if not Path(entry).exists():
            raise _usage(side, f"{entry} does not exist")
    return entries


def _variable(item: str, *, side: str) -> tuple[str, str]:
    name, separator, value = item.partition(":")
    if not separator:
        raise _usage(side, f"env={item} is not env=NAME:VALUE")
    return name, value


def _usage(side: str, what: str) -> WrongUsage:
    return WrongUsage(
        Problem(what=what, file=f"--{side}", fix="for example --head python=/venv/bin/python,path=/src/flydsl")
    )
