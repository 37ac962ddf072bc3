"""Knows the kernels of a FlyDSL checkout as compile cases: from ledger shapes, and the ones that stand for an op."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from gate.binding.families.catalogue import KERNELS as KERNELS
from gate.binding.families.kernel import Part, Refusal
from gate.binding.families.ledger import SHAPES
from gate.codegen.keys import CompileCase, Unsupported
from gate.model.codegen import Constexpr
from gate.model.shape import Shape

# What a toolchain calls the kernels of a checkout, whatever its folder is called.
NAME = "flydsl"


def family_of(op_type: str) -> str:
    """The folder of kernels an op belongs to; an op that no checkout has is its own."""
    kernel = KERNELS.get(op_type)
    return kernel.family if kernel else op_type


def occupancy_bound() -> frozenset[str]:
    """The ops that declare themselves bound by occupancy: a lost wave fails there."""
    return frozenset(op for op, kernel in KERNELS.items() if kernel.occupancy_bound)


def case_of(op_type: str, dtype: str, constexprs: Mapping[str, Constexpr]) -> CompileCase:
    """The case of an op with these constexprs, with all that a worker must know to launch it."""
    values = ",".join(f"{name}={value}" for name, value in constexprs.items())
    return CompileCase(
        compile_key=f"{op_type}/{dtype}/{values}",
        op_type=op_type,
        dtype=dtype,
        constexprs=dict(constexprs),
        parts=KERNELS[op_type].parts(dtype, constexprs),
    )


def compile_case(shape: Shape) -> CompileCase | Unsupported:
    """The case whose code serves a ledger shape, or the reason there is none. Never raises for a shape."""
    serve = SHAPES.get(shape.op_type)
    if serve is None:
        reason = f"no kernel for {shape.op_type} in a FlyDSL checkout"
        return Unsupported(op_type=shape.op_type, dtype=shape.dtype, reason=reason, no_kernel=True)
    try:
        op_type, dtype, constexprs = serve(shape.dtype, shape.args)
    except Refusal as refusal:
        return Unsupported(op_type=shape.op_type, dtype=shape.dtype, reason=str(refusal))
    return case_of(op_type, dtype, constexprs)


def representative(ops: Iterable[str] | None = None) -> list[CompileCase]:
    """The cases that stand for each op, of all ops or of those named."""
    wanted = set(KERNELS if ops is None else ops)
    return [
        case_of(op, dtype, constexprs)
        for op, kernel in KERNELS.items()
        if op in wanted
        for dtype, constexprs in kernel.cases
    ]


class Sources:
    """The Python files of a checkout and what imports what, so that a case is named by the files it can reach."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hashes: dict[Path, str] = {}
        self._imports: dict[Path, frozenset[Path]] = {}

    def sha(self, parts: Iterable[Part]) -> str:
        """16 hex digits of SHA-256 over every file of the checkout that these launches import, near or far.

        Imports inside functions count; a module that is found by its file's name is looked for the same way.
        """
        todo = [path for part in parts for path in self._module(part.modules)]
        reached: set[Path] = set()
        while todo:
            path = todo.pop()
            if path not in reached:
                reached.add(path)
                todo += self._imported(path)
        names = {path.relative_to(self.root).as_posix(): self._hash(path) for path in reached}
        text = "\n".join(f"{name} {names[name]}" for name in sorted(names))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _module(self, names: tuple[str, ...]) -> list[Path]:
        for name in names:
            found = self._files(name)
            if found:
                return found
        for name in names:
            found = sorted(self.root.glob(f"kernels/**/{name.rpartition('.')[2]}.py"))
            if len(found) == 1:
                return [found[0], *self._packages(found[0])]
        return []

    def _files(self, name: str) -> list[Path]:
        """The file of a module and the packages it lies in."""
        base = self.root.joinpath(*name.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return [path, *self._packages(path)]
        return []

    def _packages(self, path: Path) -> list[Path]:
        inits = (parent / "__init__.py" for parent in path.parents if parent.is_relative_to(self.root))
        return [init for init in inits if init.is_file()]

    def _imported(self, path: Path) -> frozenset[Path]:
        if path not in self._imports:
            self._imports[path] = frozenset(self._scan(path))
        return self._imports[path]

    def _scan(self, path: Path) -> Iterable[Path]:
        try:
            tree = ast.parse(path.read_bytes())
        except SyntaxError:
            return
        package = path.parent.relative_to(self.root).parts
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._files(alias.name)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else ()
                name = ".".join([*above, *([node.module] if node.module else [])])
                yield from self._files(name)
                for alias in node.names:
                    yield from self._files(f"{name}.{alias.name}")

    def _hash(self, path: Path) -> str:
        if path not in self._hashes:
            self._hashes[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self._hashes[path]
