"""The calls that providers make of packages outside the gate, read from the providers' own sources.

Nothing is imported: every `call("pkg.module:function", name=value)` and `find("pkg.module:name")` is found by `ast`,
and every line of a table, `kernel_of("function", op=..., takes="names")`, whose `at=("pkg.module", ...)` stands in the
call or in the `partial` that it goes through. So what is checked and what is called cannot part.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROVIDERS = Path(__file__).resolve().parents[1] / "replay" / "providers"
HELPER, CALLS, FINDS = "gate.replay.call", "call", "find"
TAKES, MODULES = "takes", "at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: where it may be found, newest first, what it is given by name, and where it is written.

    `arguments` is None where only the name is used. `op` is the op of the kernel around it, where there is one.
    """

    provider: str
    op: str
    places: tuple[str, ...]
    arguments: tuple[str, ...] | None
    file: str
    line: int


class Unreadable(ValueError):
    """A provider's call that cannot be read; the message says where and why."""


def provider_calls(providers: Path = PROVIDERS) -> list[Call]:
    """Every call of the gate's own providers, in the order of their files. Raises Unreadable."""
    found: list[Call] = []
    for path in sorted(providers.rglob("*.py")):
        relative = path.relative_to(providers)
        provider = relative.parts[0].removesuffix(".py")
        found += calls_of(path.read_text("utf-8"), provider=provider, file=f"{providers.name}/{relative.as_posix()}")
    return found


def calls_of(source: str, *, provider: str, file: str) -> list[Call]:
    """The calls of one source text. Raises Unreadable where one is not spelt out."""
    tree = ast.parse(source, filename=file)
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == HELPER]
    names = {alias.name for node in imports for alias in node.names} & {CALLS, FINDS}
    called = [
        _read(node, provider=provider, op=_op(function) or function.name, file=file)
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]
    return called + list(_tabled(tree, provider=provider, file=file))


def _tabled(tree: ast.Module, *, provider: str, file: str) -> Iterator[Call]:
    """The calls that the module's tables list."""
    assigned = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in assigned.values():
        if any(item.arg == TAKES for item in node.keywords):
            function, modules = _texts(node.args[:1]), _modules(node, assigned)
            takes, op = _named(node, TAKES), _named(node, "op")
            if not function or not modules or takes is None or op is None:
                what = f"a table's function, its op, {TAKES} and {MODULES} must be literal"
                raise Unreadable(f"{file}:{node.lineno}: {what}")
            places, arguments = tuple(f"{module}:{function[0]}" for module in modules), tuple(takes.split())
            yield Call(provider=provider, op=op, places=places, arguments=arguments, file=file, line=node.lineno)


def _modules(node: ast.Call, assigned: Mapping[str, ast.Call]) -> tuple[str, ...]:
    """The modules that a table's line looks in: its own, else those of the partial that it calls."""
    own = next((item.value for item in node.keywords if item.arg == MODULES), None)
    if own is None:
        above = assigned.get(node.func.id) if isinstance(node.func, ast.Name) else None
        return () if above is None or above is node else _modules(above, assigned)
    return _texts(own.elts if isinstance(own, ast.Tuple) else [])


def _texts(nodes: Iterable[ast.expr]) -> tuple[str, ...]:
    return tuple(item.value for item in nodes if isinstance(item, ast.Constant) and isinstance(item.value, str))


def kernels(providers: Path = PROVIDERS) -> Iterator[tuple[str, str]]:
    """(provider, op) of every kernel that a provider's source defines, by decorator or by assignment."""
    for path in sorted(providers.rglob("*.py")):
        provider = path.relative_to(providers).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                op = _named(node, "op")
                if op is not None:
                    yield _named(node, "provider") or provider, op


def _op(function: ast.FunctionDef) -> str | None:
    """The op that a kernel's decorator names."""
    found = (_named(item, "op") for item in function.decorator_list if isinstance(item, ast.Call))
    return next((op for op in found if op is not None), None)


def _named(node: ast.Call, name: str) -> str | None:
    values = (item.value for item in node.keywords if item.arg == name)
    return next((item.value for item in values if isinstance(item, ast.Constant) and isinstance(item.value, str)), None)


def _read(node: ast.Call, *, provider: str, op: str, file: str) -> Call:
    assert isinstance(node.func, ast.Name)
    places = _texts(node.args)
    if len(places) != len(node.args) or not places or any(":" not in place for place in places):
        raise Unreadable(f"{file}:{node.lineno}: the places of a call must be literal, pkg.module:function")
    names = [item.arg for item in node.keywords]
    if None in names:
        raise Unreadable(f"{file}:{node.lineno}: arguments of a call must be named, not unpacked")
    arguments = tuple(name for name in names if name is not None) if node.func.id == CALLS else None
    return Call(provider=provider, op=op, places=places, arguments=arguments, file=file, line=node.lineno)
