"""Knows how to have Triton turn one case into AMD assembly without a GPU, in a process of its own.

Run as a script by any interpreter that holds Triton and torch; speaks as the FlyDSL worker does: one JSON case a line,
one JSON answer a line, a greeting first. For the gate's own kernels the provider is asked to compile a shape, as before
a measurement, with a driver in place that names the target. With a checkout of AITER the case is a call of one of its
functions, and what that call would launch is compiled.
"""

from __future__ import annotations

import sys

# A script's own folder comes first on the path, and its neighbours' names are nobody's business here.
del sys.path[0]

import argparse  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from types import ModuleType  # noqa: E402
from typing import Any  # noqa: E402

HERE = Path(__file__).resolve().parent
# One file of Triton code may take device functions of another; last, so that nothing of it hides another module.
sys.path.append(str(HERE.parents[1]))
AITER = "aiter"
LDS = re.compile(r"(\.group_segment_fixed_size:\s*)\d+")


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Compiler:
    """One imported Triton, and what makes its compiler's products readable."""

    def __init__(self, arch: str) -> None:
        if importlib.util.find_spec("torch") is None:
            load("torch_stand_in", HERE / "torch_stand_in.py").install()
        self.compiler: Any = importlib.import_module("triton.compiler")
        self.backend: Any = importlib.import_module("triton.backends.amd.compiler").HIPBackend
        target: Any = importlib.import_module("triton.backends.compiler").GPUTarget
        self.target = target("hip", arch, 64)

    def answer(self, line: str) -> dict[str, Any]:
        """Compile one case, a line of JSON."""
        raise NotImplementedError

    def text(self, done: Any) -> str:
        """The assembly of one kernel. Triton allots LDS at launch, so the number in its text is 0 and is put right."""
        return LDS.sub(rf"\g<1>{done.metadata.shared}", done.asm["amdgcn"])


class OwnCompiler(Compiler):
    """The gate's own provider: every launch that it would make for a shape is compiled instead."""

    def __init__(self, engine: Path, arch: str) -> None:
        if importlib.util.find_spec("torch") is None:
            raise ImportError("the gate's Triton kernels need torch beside Triton, such as torch's build for the CPU")
        super().__init__(arch)
        sys.path.insert(0, str(engine.parents[1]))
        # The kernels choose their options for CDNA or for others by this.
        importlib.import_module("torch").version.hip = importlib.import_module("torch").version.hip or "none"
        self.done: list[Any] = []
        load("aiter_launches", HERE / "aiter_launches.py").stand_in(self.target)
        self._compile_every_launch(importlib.import_module("triton.runtime.jit").JITFunction)
        self.provider: Any = importlib.import_module("gate.replay.provider")
        self.op: Any = importlib.import_module("gate.replay.op")
        self.package: Any = importlib.import_module("gate.replay.providers.triton")
        self.on_paper: Any = importlib.import_module("gate.replay.providers.triton.calls").on_paper

    def _compile_every_launch(self, function_type: Any) -> None:
        run = function_type.run

        def compile_it(function: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
            del warmup
            kernel = run(function, *args, grid=grid, warmup=True, **named)
            self.done.append(kernel)
            return kernel

        function_type.run = compile_it

    def answer(self, line: str) -> dict[str, Any]:
        """Compile one shape; a kernel that has nothing of its own to compile is launched on tensors without memory."""
        part = json.loads(line)["parts"][0]
        name = part["launchers"][0]
        case = self.op.Case(shape_id="", op_type=name, layout={}, **part["values"])
        try:
            op, adapter = self.op.load_op(name), self.provider.adapter_from(self.package, name)
        except LookupError as error:
            return {"status": "unsupported", "error": str(error)}
        refusal = op.refusal(case) or adapter.supports(case)
        if refusal is not None:
            return {"status": "unsupported", "error": refusal}
        self.done.clear()
        adapter.compile(case)
        if not self.done:
            adapter.launch(adapter.prepare(case, self.on_paper(case)))
        texts = dict.fromkeys(self.text(kernel) for kernel in self.done)
        return {"status": "ok", "isa": "\n".join(texts)}


class AiterCompiler(Compiler):
    """AITER's functions: what a call of one would launch is compiled."""

    def __init__(self, kernels: Path, arch: str) -> None:
        # Before the stand-in for torch is there: AITER's host code needs torch itself.
        self.absent = importlib.util.find_spec("torch") is None
        super().__init__(arch)
        self.host: Any = load("aiter_launches", HERE / "aiter_launches.py")
        self.launches: list[Any] = [] if self.absent else self.host.see_launches(kernels, self.target)
        self.texts: dict[str, str] = {}

    def answer(self, line: str) -> dict[str, Any]:
        """Make one call and compile all that it would launch."""
        part = json.loads(line)["parts"][0]
        if self.absent:
            return {"status": "unsupported", "error": "not importable: AITER needs torch in this interpreter"}
        try:
            function = self.host.found(part["modules"], part["launchers"][0])
        except Exception as error:  # noqa: BLE001  an import of AITER may raise anything
            return {"status": "unsupported", "error": f"not importable: {one_line(error)}"}
        self.launches.clear()
        try:
            function(*self.host.arguments(**part["values"]))
        except Exception as error:  # noqa: BLE001  so may its host code
            return {"status": "unsupported", "error": f"AITER's host code does not launch it: {one_line(error)}"}
        if not self.launches:
            return {"status": "unsupported", "error": "AITER's host code launches no Triton kernel for it"}
        return {"status": "ok", "isa": "\n".join(self.text_of(launch) for launch in self.launches)}

    def text_of(self, launch: Any) -> str:
        """The text of a launch, compiled once: many sizes launch the same code."""
        signature, constants, letters = self.host.specialised(launch)
        attributes = {place: self.backend.parse_attr(text) for place, text in letters.items()}
        name = (launch.function.fn.__module__, launch.function.fn.__qualname__)
        key = repr((name, signature, constants, attributes, sorted(launch.options.items())))
        if key not in self.texts:
            self.texts[key] = self.assembly(launch.function, signature, constants, attributes, launch.options)
        return self.texts[key]

    def assembly(self, function: Any, signature: Any, constants: Any, attributes: Any, options: Any) -> str:
        """The text of one kernel."""
        source = self.compiler.ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
        return self.text(self.compiler.compile(source, target=self.target, options=options))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=Path, required=True)
    parser.add_argument("--arch", default="gfx950")
    options = parser.parse_args()
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    compilers: list[Compiler] = []

    def say(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    def start() -> dict[str, Any]:
        kind = AiterCompiler if (options.kernels / AITER).is_dir() else OwnCompiler
        compilers.append(kind(options.kernels, options.arch))
        return {"status": "ok"}

    say(guarded(start))
    if not compilers:
        return 3
    for line in sys.stdin:
        say(guarded(lambda line=line: compilers[0].answer(line)))
    return 0


def one_line(error: Exception) -> str:
    words = " | ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return f"{type(error).__name__}: {words}"[:500]


def guarded(work: Any) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        reply: dict[str, Any] = work()
    except Exception as error:  # noqa: BLE001  the worker boundary: a kernel may raise anything
        reply = {"status": "failed", "error": one_line(error)}
    return {**reply, "seconds": round(time.perf_counter() - started, 3)}


if __name__ == "__main__":
    sys.exit(main())
