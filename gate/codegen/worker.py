"""Knows how to have the installed FlyDSL turn one case into gfx950 assembly, in a process of its own.

Run as a script by any interpreter that holds a FlyDSL wheel: standard library, flydsl and what flydsl imports, and
two sibling files loaded by their path; nothing of this package. Standard input carries one JSON case a line; the
answers leave on a private copy of standard output, because FlyDSL itself prints there. The first is the greeting.

FlyDSL's last step links a code object with ld.lld, which no wheel carries. The step before it, asked for `format=isa`,
yields the whole assembly with its metadata, so no linker and no ROCm installation are needed.
"""

from __future__ import annotations

import sys

# A script's own folder comes first on the path, and its neighbours' names are nobody's business here.
del sys.path[0]

import argparse  # noqa: E402
import functools  # noqa: E402
import hashlib  # noqa: E402
import importlib  # noqa: E402
import importlib.util  # noqa: E402
import inspect  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from types import ModuleType  # noqa: E402
from typing import Any, TextIO  # noqa: E402

HERE = Path(__file__).resolve().parent
TORCH_NAME = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


def load_by_path(name: str, path: Path, *, package: bool = False) -> ModuleType:
    places = [str(path.parent)] if package else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if "gate" not in sys.modules:
    # This very package, whatever else of that name the interpreter could import.
    load_by_path("gate", HERE.parent / "__init__.py", package=True)

from gate.binding import bind  # noqa: E402
from gate.binding.arguments import Arguments  # noqa: E402
from gate.binding.assembly import capture_assembly, surroundings, texts_of  # noqa: E402
from gate.binding.bind import Unsupported  # noqa: E402


def check_signature(build: Callable[..., Any], constexprs: dict[str, Any]) -> None:
    """Raise Unsupported when `build` does not take these constexprs."""
    found = inspect.signature(build)
    try:
        found.bind("dtype", **constexprs)
    except TypeError:
        expected = ", ".join(["dtype", *constexprs])
        raise Unsupported(f"API changed: expected build({expected}), found build{found}") from None


class Compiler:
    """One imported FlyDSL, the kernels of one directory, and the modules it has compiled."""

    def __init__(self, kernels: Path, *, installed_torch: bool, toolkit: str) -> None:
        if installed_torch:
            self.torch: Any = importlib.import_module("torch")
        else:
            self.torch = load_by_path("torch_stand_in", HERE / "torch_stand_in.py").install()
        self.front: Any = importlib.import_module("flydsl.compiler")
        self.expr: Any = importlib.import_module("flydsl.expr")
        self.jit_type: type = importlib.import_module("flydsl.compiler.jit_function").JitFunction
        self.modules = capture_assembly(toolkit)
        self.kernels = kernels
        self.builders: dict[str, Callable[..., Any]] = {}
        sys.path.insert(0, str(kernels))

    def builder(self, op_type: str) -> Callable[..., Any]:
        if op_type not in self.builders:
            path = self.kernels / f"{op_type}.py"
            if not path.is_file():
                raise Unsupported(f"no {path.name} in the kernels directory")
            build = getattr(load_by_path(f"canary_{op_type}", path), "build", None)
            if not callable(build):
                raise Unsupported(f"{path.name} has no build(dtype, **constexprs)")
            self.builders[op_type] = build
        return self.builders[op_type]

    def argument(self, spec: list[Any]) -> Any:
        kind, *rest = spec
        if kind == "tensor":
            dtype, shape = rest
            return self.torch.empty(shape, dtype=getattr(self.torch, TORCH_NAME[dtype]))
        if kind == "int32":
            return int(rest[0])
        if kind == "stream":
            return self.expr.Stream(None)
        raise Unsupported(f"unknown argument kind {kind!r}")

    def answer(self, line: str) -> dict[str, Any]:
        """Compile the case in one line of JSON and return the reply with its whole assembly."""
        case = json.loads(line)
        self.modules.clear()
        if case["parts"]:
            for part in case["parts"]:
                self.launch_part(part)
        else:
            self.launch_canary(case)
        texts = texts_of(self.modules)
        if not texts:
            raise RuntimeError("FlyDSL returned no assembly")
        launch_sha = hashlib.sha256(surroundings(self.modules).encode()).hexdigest()[:16]
        return {"status": "ok", "isa": "\n".join(texts), "launch_sha": launch_sha}

    def launch_canary(self, case: dict[str, Any]) -> None:
        build = self.builder(case["op_type"])
        check_signature(build, case["constexprs"])
        launcher, specs = build(case["dtype"], **case["constexprs"])
        launcher(*[self.argument(list(spec)) for spec in specs])

    def launch_part(self, part: dict[str, Any]) -> None:
        module = bind.find_module(self.kernels, part["modules"])
        if part["builders"]:
            found = bind.call_builder(bind.find_callable(module, part["builders"]), part, module)
            launcher = bind.choose(found, part["launchers"], self.jit_type)
        else:
            launcher = bind.find_callable(module, part["launchers"])
        arguments = Arguments(part, module, torch=self.torch, compiler=self.front, expr=self.expr)
        arguments.launch(launcher, self.jit_type)


def one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:3])}"[:500]


def guarded(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run `work` and return its reply; whatever it raises becomes the reply: unsupported or failed, with one line."""
    started = time.perf_counter()
    try:
        reply = work()
    except Unsupported as error:
        reply = {"status": "unsupported", "error": str(error)}
    except Exception as error:  # noqa: BLE001  the worker boundary: a kernel may raise anything
        reply = {"status": "failed", "error": one_line(error)}
    return {**reply, "seconds": round(time.perf_counter() - started, 3)}


def private_stdout() -> TextIO:
    """Keep standard output for the answers and send everything printed by others to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def say(channel: TextIO, message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


def serve(channel: TextIO, kernels: Path, *, installed_torch: bool, toolkit: str) -> int:
    compilers: list[Compiler] = []

    def start() -> dict[str, Any]:
        compilers.append(Compiler(kernels, installed_torch=installed_torch, toolkit=toolkit))
        return {"status": "ok"}

    greeting = guarded(start)
    say(channel, greeting)
    if not compilers:
        return 3
    for line in sys.stdin:
        say(channel, guarded(functools.partial(compilers[0].answer, line)))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=Path, required=True)
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--installed-torch", action="store_true", help="for kernels that need more than the stand-in")
    parser.add_argument("--toolkit", default="", help="folder like ROCm's, for the device libraries")
    options = parser.parse_args()
    os.environ.update(
        COMPILE_ONLY="1", ARCH=options.arch, FLYDSL_GPU_ARCH=options.arch, FLYDSL_RUNTIME_ENABLE_CACHE="0"
    )
    channel = private_stdout()
    kernels, toolkit = options.kernels.resolve(), options.toolkit
    return serve(channel, kernels, installed_torch=options.installed_torch, toolkit=toolkit)


if __name__ == "__main__":
    sys.exit(main())
