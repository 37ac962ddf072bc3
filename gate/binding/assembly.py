"""Makes FlyDSL stop at assembly, so that no linker and no ROCm are needed, and reads it from the compiled modules."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

BINARY_STEP = re.compile(r"^gpu-module-to-binary\{.*\}$")
ASSEMBLY = re.compile(r'assembly\s*=\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
MLIR_ESCAPE = re.compile(r'\\([0-9A-Fa-f]{2}|["\\])')


def unescape(text: str) -> str:
    """Undo MLIR's string escapes: a backslash before two hex digits, a quote or a backslash."""

    def byte(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code, 16)) if len(code) == 2 else code

    return MLIR_ESCAPE.sub(byte, text)


def capture_assembly(toolkit: str) -> list[str]:
    """Make every FlyDSL compile in this process stop at assembly, and return the list its modules are appended to."""
    jit = importlib.import_module("flydsl.compiler.jit_function")
    rocm = importlib.import_module("flydsl.compiler.backends.rocm").RocmBackend
    isa_step = f"gpu-module-to-binary{{format=isa section= toolkit={toolkit}}}"
    modules: list[str] = []
    fragments: Callable[..., list[str]] = rocm.pipeline_fragments
    compile_module: Callable[..., Any] = jit.MlirCompiler.compile.__func__

    def to_assembly(self: Any, **options: Any) -> list[str]:
        return [isa_step if BINARY_STEP.match(step) else step for step in fragments(self, **options)]

    def compile_and_keep(cls: Any, *args: Any, **options: Any) -> Any:
        module = compile_module(cls, *args, **options)
        modules.append(module.operation.get_asm())
        return module

    rocm.pipeline_fragments = to_assembly
    jit.MlirCompiler.compile = classmethod(compile_and_keep)
    return modules


def texts_of(modules: list[str]) -> list[str]:
    """The assembly that compiled modules hold, unescaped."""
    return [unescape(text) for module in modules for text in ASSEMBLY.findall(module)]


def surroundings(modules: list[str]) -> str:
    """What is left of compiled modules without their assembly: the host's side of the launches."""
    return "\n".join(ASSEMBLY.sub("", module) for module in modules)
