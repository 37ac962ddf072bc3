"""What can be wrong with a GPU node, each as a check that says how to mend it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gate.replay.arms import FLYDSL_BUILD, FLYDSL_LIBRARIES, ArmSpec
from gate.replay.environment import driver_version, gpu_count

PROBE_TIMEOUT_S = 120
MIN_FREE_BYTES = 2 * 1024**3
# What an arm's interpreter tells about itself, one KEY=VALUE a line.
PROBE = """
import sys
print("python=" + sys.version.split()[0])
try:
    import torch
    print("torch=" + torch.__version__)
    print("build=" + (("rocm " + torch.version.hip) if torch.version.hip else "cuda " + str(torch.version.cuda)))
    print("gpus=" + str(torch.cuda.device_count() if torch.cuda.is_available() else 0))
except Exception as error:
    print("torch_error=" + type(error).__name__ + ": " + str(error).splitlines()[0])
for name in ("triton", "flydsl", "aiter"):
    try:
        module = __import__(name)
        print(name + "=" + str(getattr(module, "__version__", "unknown")))
        print(name + "_file=" + str(getattr(module, "__file__", "")))
    except ModuleNotFoundError as error:
        print(name + "_absent=" + str(error))
    except Exception as error:
        print(name + "_error=" + type(error).__name__ + ": " + (str(error).splitlines() or [""])[0])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at: `state` is ok, note (works, but know this) or bad (measuring will fail)."""

    name: str
    state: str
    what: str
    fix: str = ""


def check_node(arms: dict[str, ArmSpec], environment: dict[str, str], out: Path | None) -> Iterator[Check]:
    """Every check, cheapest first."""
    yield gpus(gpu_count(), driver_version())
    yield visible(environment)
    yield scratch(Path(environment.get("TRITON_CACHE_DIR") or Path.home() / ".triton"), name="Triton's cache")
    yield scratch(out or Path.cwd(), name="the output folder")
    yield tool("git", why="commits of checkouts cannot be recorded")
    for side, spec in arms.items():
        yield from arm_checks(side, spec, probe(spec, environment))


def gpus(count: int, driver: str | None) -> Check:
    """Whether the machine has a GPU and a driver."""
    if count:
        return Check(name="gpu", state="ok", what=f"{count} GPU(s), driver {driver or 'of unknown version'}")
    if driver is not None:
        fix = "check that /dev/kfd and /dev/dri (or /dev/nvidia*) are there and that this user may open them"
        return Check(name="gpu", state="bad", what=f"driver {driver} is loaded but shows no GPU", fix=fix)
    fix = "install the GPU driver; in a container pass --device /dev/kfd --device /dev/dri (AMD) or --gpus all (NVIDIA)"
    return Check(name="gpu", state="bad", what="no GPU and no driver", fix=fix)


def visible(environment: dict[str, str]) -> Check:
    """Whether the variables that select GPUs contradict each other."""
    names = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    chosen = {name: environment[name] for name in names if name in environment}
    if any(value == "" for value in chosen.values()):
        empty = next(name for name, value in chosen.items() if value == "")
        return Check(
            name="visible devices", state="bad", what=f"{empty} is empty: no GPU is visible", fix=f"unset {empty}"
        )
    if len(set(chosen.values())) > 1:
        told = ", ".join(f"{name}={value}" for name, value in chosen.items())
        return Check(name="visible devices", state="note", what=f"{told} differ", fix="keep only one of them")
    told = ", ".join(f"{name}={value}" for name, value in chosen.items()) or "all GPUs are visible"
    return Check(name="visible devices", state="ok", what=told)


def scratch(folder: Path, *, name: str) -> Check:
    """Whether a folder (or its nearest parent) can be written and has room."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free
    except OSError as error:
        return Check(
            name=name, state="bad", what=f"{place} cannot be written: {error.strerror}", fix="choose another folder"
        )
    if free < MIN_FREE_BYTES:
        return Check(name=name, state="note", what=f"{place} has {free / 1024**3:.1f} GiB left", fix="make room")
    return Check(name=name, state="ok", what=f"{folder} can be written, {free / 1024**3:.0f} GiB free")


def tool(name: str, *, why: str) -> Check:
    """Whether a program is installed."""
    if shutil.which(name) is not None:
        return Check(name=name, state="ok", what="installed")
    return Check(name=name, state="note", what=f"not installed: {why}", fix=f"install {name}")


def probe(spec: ArmSpec, environment: dict[str, str]) -> dict[str, str]:
    """What the arm's own interpreter says, started exactly as its worker is; `died` tells how it ended."""
    command = [spec.python, "-c", PROBE]
    try:
        done = subprocess.run(
            command,
            env=spec.environment(environment, gpu=None),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"died": str(error)}
    lines = (line.partition("=") for line in done.stdout.splitlines() if "=" in line)
    found = {key: value for key, _, value in lines}
    if done.returncode != 0:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
        found["died"] = f"exit {done.returncode}: {last[:200]}"
    return found


def arm_checks(side: str, spec: ArmSpec, found: dict[str, str]) -> Iterator[Check]:
    """What is wrong with one arm's interpreter, torch, FlyDSL and paths."""
    if "died" in found:
        fix = f"run it by hand: {spec.python} -c 'import torch, flydsl'"
        yield Check(name=f"{side}: interpreter", state="bad", what=f"{spec.python} died: {found['died']}", fix=fix)
    if "torch" not in found:
        what = found.get("torch_error", "torch was not reached")
        fix = "install the torch build for this driver into that interpreter (for ROCm from AMD's wheels)"
        yield Check(name=f"{side}: torch", state="bad", what=what, fix=fix)
    elif found.get("gpus") == "0":
        fix = "the build must match the driver: a CUDA build sees no AMD GPU, a CPU build sees none at all"
        yield Check(
            name=f"{side}: torch", state="bad", what=f"{found['torch']} ({found['build']}) sees no GPU", fix=fix
        )
    else:
        what = f"torch {found['torch']} ({found['build']}), {found['gpus']} GPU(s), python {found.get('python')}"
        yield Check(name=f"{side}: torch", state="ok", what=what)
    for package in ("triton", "aiter"):
        yield package_check(side, package, found)
    yield flydsl_check(side, spec, found)


def package_check(side: str, package: str, found: dict[str, str]) -> Check:
    """Whether a baseline's package can be imported in the arm."""
    name = f"{side}: {package}"
    if package in found:
        return Check(name=name, state="ok", what=f"{found[package]} from {found.get(package + '_file')}")
    if package + "_error" in found:
        return Check(name=name, state="bad", what=found[package + "_error"], fix=f"mend the installation of {package}")
    return Check(
        name=name, state="note", what="not installed: its rows will be failed or unsupported", fix=f"install {package}"
    )


def flydsl_check(side: str, spec: ArmSpec, found: dict[str, str]) -> Check:
    """Whether FlyDSL is the one the arm means, with its compiled part found before the process starts."""
    name = f"{side}: flydsl"
    trees = [Path(entry) for entry in spec.path if (Path(entry) / "python" / "flydsl").is_dir()]
    built = [Path(entry) for entry in spec.path if Path(entry).parts[-2:] == FLYDSL_BUILD]
    if "flydsl_error" in found:
        return Check(name=name, state="bad", what=found["flydsl_error"], fix=library_fix(spec, trees))
    if "flydsl" not in found:
        fix = "pip install flydsl, or give the arm flydsl=DIR of a built source tree"
        return Check(name=name, state="note", what="not installed: the candidate's rows will fail", fix=fix)
    place = found.get("flydsl_file", "")
    if built and not any(place.startswith(str(entry)) for entry in built):
        what = f"{place} is imported, not the build under {built[0]}"
        fix = f"uninstall flydsl from {spec.python}, or put {built[0]} first in path="
        return Check(name=name, state="bad", what=what, fix=fix)
    if trees and not built:
        tree = trees[0]
        what = f"{tree} is a source tree without its build on the path; {place} is imported"
        return Check(name=name, state="note", what=what, fix=f"give the arm flydsl={tree} after scripts/build.sh there")
    return Check(name=name, state="ok", what=f"{found['flydsl']} from {place}")


def library_fix(spec: ArmSpec, trees: list[Path]) -> str:
    """What to do when FlyDSL's compiled part does not load (LD_LIBRARY_PATH is read only when a process starts)."""
    libraries = [Path(entry).joinpath(*FLYDSL_LIBRARIES) for entry in spec.path]
    there = [place for place in libraries if place.is_dir()]
    if there and str(there[0]) not in spec.ld:
        return f"add ld={there[0]} to the arm: the loader reads it before the process starts"
    if trees:
        return f"build the tree with the interpreter of the arm: cd {trees[0]} && scripts/build.sh"
    return f"install a wheel for this interpreter: {spec.python} -m pip install --force-reinstall flydsl"
