"""What a checkout's source defines: the function or class behind `pkg.module:name`, through re-exports, by `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MAX_HOPS = 8
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, and whether a call must give it."""

    name: str
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A definition: its file (relative to the checkout), line, and, of a function, its parameters.

    `parameters` is None where the definition is no function whose signature the source shows; `anything` says that
    it takes names that the signature does not list.
    """

    file: str
    line: int
    parameters: tuple[Parameter, ...] | None = None
    anything: bool = False


class Module:
    """One source file, parsed once."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.root = path, root

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """The statements of the module, those inside `if` and `try` included. Raises SyntaxError."""
        return list(_flat(ast.parse(self.path.read_bytes()).body))

    def definition(self, name: str) -> Definition | None:
        """The last definition of a name at module level."""
        found: Definition | None = None
        for node in self.statements:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found = node if node.name == name else found
            elif isinstance(node, ast.Assign):
                names = [item.id for item in node.targets if isinstance(item, ast.Name)]
                found = node if name in names else found
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found = node if node.target.id == name else found
        return found

    def imported(self, name: str) -> Iterator[tuple[str, str]]:
        """(module, name) that a name may come from: imports of it by name first, then those of everything."""
        imports = [node for node in self.statements if isinstance(node, ast.ImportFrom)]
        for node in reversed(imports):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    yield self._absolute(node), alias.name
        for node in reversed(imports):
            if any(alias.name == "*" for alias in node.names):
                yield self._absolute(node), name

    def _absolute(self, node: ast.ImportFrom) -> str:
        package = self.path.parent.relative_to(self.root).parts
        above = package[: len(package) - node.level + 1] if node.level else ()
        return ".".join([*above, *([node.module] if node.module else [])])


class Checkout:
    """The Python sources below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """The module of a dotted name, or None where the checkout lacks it."""
        if name not in self._modules:
            base = self.root.joinpath(*name.split("."))
            places = (base.with_suffix(".py"), base / "__init__.py")
            path = next((place for place in places if place.is_file()), None)
            self._modules[name] = None if path is None else Module(path, self.root)
        return self._modules[name]

    def find(self, module: str, name: str, hops: int = 0) -> Found | None:
        """The definition of `name` in `module`, followed through re-exports. Raises SyntaxError."""
        held = self.module(module)
        if held is None or hops > MAX_HOPS:
            return None
        node = held.definition(name)
        if node is not None:
            return self._found(held, node)
        for source, original in held.imported(name):
            found = self.find(source, original, hops + 1)
            if found is not None:
                return found
        return None

    def _found(self, module: Module, node: Definition) -> Found:
        file = module.path.relative_to(self.root).as_posix()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return Found(file=file, line=node.lineno)
        anything = node.args.kwarg is not None
        return Found(file=file, line=node.lineno, parameters=parameters(node.args), anything=anything)


def parameters(arguments: ast.arguments) -> tuple[Parameter, ...]:
    """The named parameters of a signature, in order."""
    fixed = [*arguments.posonlyargs, *arguments.args]
    optional = len(fixed) - len(arguments.defaults)
    first = [Parameter(item.arg, index < optional) for index, item in enumerate(fixed)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return (*first, *(Parameter(item.arg, default is None) for item, default in pairs))


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _flat(getattr(node, field, []))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _flat(handler.body)
