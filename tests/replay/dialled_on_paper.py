"""Compiles dialled kernels for Hopper or CDNA without a GPU; in a process of its own, as it takes the driver's place.

python -m tests.replay.dialled_on_paper < {"arch": "sm_90", "package": ENTRYPOINT, "cases": [...]}
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gate.codegen import aiter_launches
from gate.replay.op import Case
from gate.replay.provider import load_entrypoint
from tests.replay.elsewhere import answer

DIALLED = "tests.bench.dialled:Adapter"
# What writes memory in PTX: stores of every kind, bulk copies, reductions and atomics that return what was there.
WRITES = re.compile(r"\b(st\.global|st\.relaxed|atom\.|red\.|cp\.async\.bulk\.tensor\S*\.global)")
HOPPER_UNITS = 132


def compiled(
    cases: Sequence[Case], *, arch: str = "sm_90", package: str = DIALLED, cache: Path
) -> list[dict[str, Any]]:
    """For each case its error, or "", and its kernels, as `dial_in` tells them."""
    request = {"arch": arch, "package": package, "cases": [asdict(case) for case in cases]}
    found: list[dict[str, Any]] = answer("tests.replay.dialled_on_paper", request, TRITON_CACHE_DIR=str(cache))
    return found


def stand_in(arch: str) -> None:
    """Has torch and Triton answer for a GPU that is not there."""
    import torch
    from triton.backends.compiler import GPUTarget

    if arch.startswith("gfx"):
        torch.version.hip = torch.version.hip or "none"
        aiter_launches.stand_in(GPUTarget("hip", arch, 64))
        return
    major, minor = divmod(int(arch.removeprefix("sm_")), 10)
    units: Any = aiter_launches.UNITS
    units[10 * major + minor] = HOPPER_UNITS
    aiter_launches.stand_in(GPUTarget("cuda", 10 * major + minor, 32))
    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_capability = lambda *_: (major, minor)


def dial_in(kernel: Any) -> dict[str, Any]:
    """Of one compiled kernel: whether the dial's loop is in its PTX, and how many writes stand behind the loop's end.

    The dial's own store is the one that may.
    """
    found = {"name": kernel.metadata.name, "loop": "amdgcn" in kernel.asm, "behind": 1}
    if "ptx" in kernel.asm:
        lines = kernel.asm["ptx"].splitlines()
        # 1.0000001 as the nearest float.
        rounds = [number for number, line in enumerate(lines) if "0f3F800001" in line]
        found["loop"] = bool(rounds) and "bra" in "".join(lines[rounds[-1] : rounds[-1] + 8])
        found["behind"] = sum(bool(WRITES.search(line)) for line in lines[rounds[-1] :]) if rounds else -1
    return found


def main() -> None:
    from triton.runtime.jit import JITFunction

    request = json.loads(sys.stdin.read())
    stand_in(request["arch"])
    run, done = JITFunction.run, []

    def compile_it(function: Any, *given: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        del warmup
        kernel = run(function, *given, grid=grid, warmup=True, **named)
        done.append(kernel)
        return kernel

    JITFunction.run = compile_it
    answers = []
    for each in request["cases"]:
        case, error = Case(**each), ""
        done.clear()
        try:
            load_entrypoint(request["package"], case.op_type).compile(case)
        except Exception as fault:  # noqa: BLE001  whatever a compiler raises is what is asked for
            error = f"{type(fault).__name__}: {' | '.join(str(fault).split(chr(10))[-6:])}"
        answers.append({"error": error, "kernels": [dial_in(kernel) for kernel in done]})
    sys.stdout.write(json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
