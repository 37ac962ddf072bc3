"""The script that is profiled: one kernel, its inputs and a number of calls, in a file that runs alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

CALLS, WARMUP = 20, 5
MOST_COPIES = 64
FACTS_PREFIX = "gate-repro "


class Repro(msgspec.Struct, frozen=True, kw_only=True):
    """What the script runs. `gate` is the folder of the package whose ops and providers it loads; `device` opens it.

    `environment` are the variables that the arm's interpreter needs before it starts.
    """

    gate: Path
    python: str
    entrypoint: str
    case: Mapping[str, Any]
    op: str | None = None
    calls: int = CALLS
    warmup: int = WARMUP
    seed: int = 1
    device: str = "gpu"
    environment: Mapping[str, str] = {}


def script(repro: Repro) -> str:
    """The text of the script. Equal requests give equal text."""
    constants = {
        "GATE": str(repro.gate),
        "CASE": dict(repro.case),
        "ENTRYPOINT": repro.entrypoint,
        "OP": repro.op or repro.case["op_type"],
        "CALLS": repro.calls,
        "WARMUP": repro.warmup,
        "SEED": repro.seed,
        "DEVICE": repro.device,
        "MOST_COPIES": MOST_COPIES,
    }
    lines = "\n".join(f"{name} = {literal(value)}" for name, value in constants.items())
    what = f"{repro.case['op_type']} {repro.case['dtype']} {repro.case['shape_id']}: {repro.entrypoint}"
    return HEAD.format(what=_plain(what), alone=_plain(alone(repro)), facts=FACTS_PREFIX) + lines + "\n" + BODY


def alone(repro: Repro) -> str:
    """The command that runs the script by hand, in the folder it lies in."""
    variables = [f"{name}={value}" for name, value in sorted(repro.environment.items())]
    return " ".join([*(["env", *variables] if variables else []), repro.python, "repro.py"])


def literal(value: Any) -> str:
    """A Python literal of plain data, on one line."""
    return repr(json.loads(json.dumps(value)))


def _plain(text: str) -> str:
    """Text for a docstring: no quote ends it and no backslash escapes."""
    return text.replace("\\", "/").replace('"', "'")


def facts(stdout: str) -> dict[str, Any]:
    """What the script said of itself: calls, warm-up, copies, GPU, architecture, commit; empty if it said nothing."""
    for line in stdout.splitlines():
        if line.startswith(FACTS_PREFIX):
            try:
                found = json.loads(line.removeprefix(FACTS_PREFIX))
            except ValueError:
                return {}
            return found if isinstance(found, dict) else {}
    return {}


HEAD = '''"""One kernel for a profiler: {what}.

Written by `gate profile`. Alone:
    {alone}
Under a profiler:
    rocprofv3 --kernel-trace --output-format csv -- python repro.py
    python repro.py --torch-trace trace.json
It makes inputs, calls the kernel WARMUP + CALLS times over a ring of copies, and prints one line of facts
("{facts}...").
"""

import importlib.util
import json
import sys
from pathlib import Path

'''

BODY = '''

def load_gate():
    """Loads the package from its folder, so that nothing else of the folder comes onto the path."""
    spec = importlib.util.spec_from_file_location(
        "gate", Path(GATE) / "__init__.py", submodule_search_locations=[GATE]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["gate"] = module
    spec.loader.exec_module(module)


def make_calls(device, case, adapter, op):
    """A function that makes N calls over a ring of copies, and the number of copies."""
    one = op.inputs(case, device, 1, SEED)
    footprint = sum(device.nbytes(tensor[0]) for tensor in one.values()) or 1
    # Enough copies that each call finds its data in memory and not in a cache.
    copies = max(2, min(MOST_COPIES, device.facts.chip.evict_bytes // footprint + 2))
    copies = min(copies, max(2, device.free_bytes() // 4 // footprint))
    del one
    tensors = op.inputs(case, device, copies, SEED)
    for name, spec in op.outputs(case).items():
        tensors[name] = device.stack(copies, spec.shape, spec.dtype)
    states = [
        adapter.prepare(case, {name: tensor[index] for name, tensor in tensors.items()}) for index in range(copies)
    ]

    def calls(first, count):
        for index in range(first, first + count):
            adapter.launch(states[index % copies])

    return calls, copies


def main():
    load_gate()
    from gate.replay.device import open_device
    from gate.replay.op import Case, load_op
    from gate.replay.provider import load_entrypoint

    case = Case(**CASE)
    device = open_device(DEVICE)
    adapter, op = load_entrypoint(ENTRYPOINT, case.op_type), load_op(OP)
    refusal = op.refusal(case) or adapter.supports(case)
    if refusal is not None:
        sys.exit(f"this kernel does not take the shape: {refusal}")
    adapter.compile(case)
    calls, copies = make_calls(device, case, adapter, op)
    device.run(lambda: calls(0, WARMUP))
    torch_trace = sys.argv[2] if sys.argv[1:2] == ["--torch-trace"] else None
    if torch_trace is None:
        device.run(lambda: calls(WARMUP, CALLS))
    else:
        import torch

        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            device.run(lambda: calls(WARMUP, CALLS))
        profiler.export_chrome_trace(torch_trace)
    facts = {
        "calls": CALLS,
        "warmup": 0 if torch_trace else WARMUP,
        "copies": copies,
        "gpu": device.facts.gpu,
        "arch": device.facts.arch,
        "runtime": device.facts.runtime,
        "detail": adapter.describe(case),
        "commit": adapter.commit(),
    }
    print("gate-repro " + json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
'''
