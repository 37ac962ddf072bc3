"""Which bindings to AITER's Triton and Gluon kernels run AITER's real host code, up to the launches it would make.

python -m tests.bench.aiter_triton_hosts CHECKOUT [--arch gfx950] [--compile] [--out FILE]

Needs torch (a CPU build will do) and Triton. AITER is imported with AITER_TRITON_ONLY=1 and a driver that only names
the chip; launches are seen instead of made. One small case per op and dtype; every line says what was launched, and
with --compile how many instructions Triton makes of each launch. FILE is for gate doctor --matrix --compiles.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.replay.aiter_cases import SHAPES, kernels


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from gate.codegen.aiter_launches import see_launches

    target = importlib.import_module("triton.backends.compiler").GPUTarget("hip", options.arch, 64)
    launches = see_launches(options.checkout.resolve(), target)
    failed, answers = 0, []
    for name, adapter, dtype in kernels(("aiter_triton", "gluon")):
        launches.clear()
        told = run(adapter, dtype, options.arch)
        seen = [launch.function.fn.__name__ for launch in launches]
        if options.compile and told is None:
            seen = [f"{name} ({compiled(launch, target)})" for name, launch in zip(seen, launches, strict=True)]
        failed += told is not None and not told.startswith("refused")
        state = (
            "refused" if told else "compiled" if seen and not any("not compiled" in one for one in seen) else "failed"
        )
        answers.append({"op": adapter.op_type, "provider": name, "rows": 1, "state": state})
        print(f"{name:13} {adapter.op_type:28} {dtype:5} {told or ', '.join(seen)}", flush=True)
    if options.out is not None and options.compile:
        options.out.write_text("".join(json.dumps(answer) + "\n" for answer in answers), "utf-8")
    return 1 if failed else 0


def compiled(launch: Any, target: Any) -> str:
    """What Triton makes of a launch for the target, in words."""
    from gate.codegen.aiter_launches import specialised

    compiler = importlib.import_module("triton.compiler")
    try:
        signature, constants, letters = specialised(launch)
        attributes = {place: compiler.make_backend(target).parse_attr(text) for place, text in letters.items()}
        source = compiler.ASTSource(fn=launch.function, signature=signature, constexprs=constants, attrs=attributes)
        text = compiler.compile(source, target=target, options=launch.options).asm["amdgcn"]
    except Exception as error:  # noqa: BLE001  the line of the table says what
        return f"not compiled: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return f"{text.count(chr(10) + chr(9) + 'v_') + text.count(chr(10) + chr(9) + 's_')} vector and scalar instructions"


def run(adapter: Any, dtype: str, arch: str) -> str | None:
    """What went wrong, or None."""
    from gate.replay.memory_torch import TorchMemory
    from gate.replay.op import Case, load_op

    op = load_op(adapter.op_type)
    args = SHAPES.get(op.name, {"M": 4, "N": 64})
    case = Case(shape_id="s", op_type=op.name, dtype=dtype, args=args, layout={})
    refusal = adapter.supports(case)
    if refusal is not None:
        return f"refused: {refusal}"
    memory: Any = TorchMemory("cpu", arch)
    tensors = {name: value[0] for name, value in op.inputs(case, memory, 1, 3).items()}
    outputs = {name: memory.stack(1, spec.shape, spec.dtype)[0] for name, spec in op.outputs(case).items()}
    try:
        adapter.launch(adapter.prepare(case, {**tensors, **outputs}))
    except Exception as error:  # noqa: BLE001  the line of the table says what
        return f"failed: {type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return None


if __name__ == "__main__":
    sys.exit(main())
