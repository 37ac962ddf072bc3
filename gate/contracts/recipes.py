"""Holds the recipes of FlyDSL's kernels, and what the provider gives their launchers, against a checkout's source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gate.binding.bind import module_file
from gate.binding.families.catalogue import launches_of
from gate.binding.families.kernel import Part, Refusal
from gate.contracts.calls import PROVIDERS
from gate.contracts.check import Finding, State
from gate.contracts.source import Parameter, parameters

PROVIDER = "flydsl"
MAX_HOPS = 3


class Names:
    """Every argument name that the provider's sources give: keys of their dicts, values of their tables of names."""

    def __init__(self, folder: Path = PROVIDERS / PROVIDER) -> None:
        trees = [ast.parse(path.read_text("utf-8")) for path in sorted(folder.glob("*.py"))]
        nodes = [node for tree in trees for node in ast.walk(tree)]
        tables = [found for tree in trees for node in tree.body if (found := _table(node)) is not None]
        keys = [key for node in nodes if node not in tables for key in _keys(node)]
        keys += [value for table in tables for value in table.values]
        self.whole = {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
        # A name with a part that is filled in: what is written before it, else what is written after it.
        self.ends = [_ends(key) for key in keys if isinstance(key, ast.JoinedStr)]

    def has(self, name: str) -> bool:
        """Whether the provider can give an argument of that name."""
        return name in self.whole or any(
            name.startswith(head) if head else bool(tail) and name.endswith(tail) for head, tail in self.ends
        )


def _keys(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    if isinstance(node, ast.DictComp):
        return [node.key]
    return [node.slice] if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else []


def _table(node: ast.stmt) -> ast.Dict | None:
    """A module's own table from the ops' names to the launchers'."""
    return node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) else None


def _ends(key: ast.JoinedStr) -> tuple[str, str]:
    first, last = key.values[0], key.values[-1]
    return (
        str(first.value) if isinstance(first, ast.Constant) else "",
        str(last.value) if isinstance(last, ast.Constant) else "",
    )


def check_recipes(shapes: Iterable[tuple[str, str, Mapping[str, Any]]], root: Path) -> Iterator[Finding]:
    """The launches of each shape (op, dtype, args): the module, the builder and its arguments, the launcher's.

    Shapes whose launches take the same names are checked once; those that FlyDSL refuses are not launched.
    """
    names, seen = Names(), set[tuple[str, str, str]]()
    for op, part in _launches(shapes, root):
        for finding in _part(op, part, root, names):
            key = (finding.op, finding.state, finding.what)
            if key not in seen:
                seen.add(key)
                yield finding


def _launches(shapes: Iterable[tuple[str, str, Mapping[str, Any]]], root: Path) -> Iterator[tuple[str, Part]]:
    seen = set[tuple[str, ...]]()
    for op, dtype, args in shapes:
        try:
            parts, _ = launches_of(op, dtype, args, root)
        except Refusal:
            continue
        for part in parts:
            key = (op, *part.modules, *part.builders, *part.launchers, *part.values)
            if key not in seen:
                seen.add(key)
                yield op, part


def _part(op: str, part: Part, root: Path, names: Names) -> Iterator[Finding]:
    path = module_file(root, part.modules)
    wanted = part.builders or part.launchers
    if path is None:
        yield _finding(op, "missing_module", f"there is no {part.modules[0]}", part.modules[0].replace(".", "/"))
        return
    file = path.relative_to(root).as_posix()
    tree = ast.parse(path.read_bytes())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = next((functions[name] for name in wanted if name in functions), None)
    if found is None:
        told = f"{part.modules[0]} has no {wanted[0]}"
        exported = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
                    for alias in node.names}  # fmt: skip
        if not exported & set(wanted):
            yield _finding(op, "missing_function", told, file)
        return
    where = f"{file}:{found.lineno}"
    faults = list(_builder(op, part, found, where)) if part.builders else []
    faults += _launcher(op, part, found, functions, file, names)
    yield from faults or [_finding(op, "ok", f"{part.modules[0]}:{found.name}", where)]


def _builder(op: str, part: Part, found: ast.FunctionDef, where: str) -> Iterator[Finding]:
    takes = parameters(found.args)
    if found.args.kwarg is None:
        for name in part.values:
            if name not in {item.name for item in takes}:
                yield _finding(op, "unknown_argument", f"{found.name} takes no {name}", where)
    for item in takes:
        if item.required and item.name not in {**part.values, **part.offers}:
            yield _finding(op, "new_required_argument", f"{found.name} asks for {item.name}", where)


def _launcher(
    op: str, part: Part, found: ast.FunctionDef, functions: dict[str, ast.FunctionDef], file: str, names: Names
) -> list[Finding]:
    """The faults of the launcher that comes nearest to what is given: a builder may hold several."""
    launchers = [found] if not part.builders else list(_launchers(found, functions))
    named = [item for item in launchers if item.name in part.launchers] or launchers
    best: tuple[ast.FunctionDef, list[str]] | None = None
    for item in named:
        missing = [one for one in parameters(item.args) if one.required and not _given(one, part, names)]
        if best is None or len(missing) < len(best[1]):
            best = (item, [one.name for one in missing])
    if best is None or not best[1]:
        return []
    told = f"{best[0].name} asks for {', '.join(best[1])}"
    return [_finding(op, "new_required_argument", told, f"{file}:{best[0].lineno}")]


def _given(item: Parameter, part: Part, names: Names) -> bool:
    known = {"stream", *part.values, *part.offers, *part.made}
    return item.name in known or names.has(item.name)


def _launchers(
    found: ast.FunctionDef, functions: dict[str, ast.FunctionDef], hops: int = 0
) -> Iterator[ast.FunctionDef]:
    """Functions with a stream inside a builder, and inside the functions of its module that it calls."""
    for node in ast.walk(found):
        if isinstance(node, ast.FunctionDef) and node is not found and _takes_stream(node):
            yield node
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if called in functions and called != found.name and hops < MAX_HOPS:
            yield from _launchers(functions[called], functions, hops + 1)


def _takes_stream(node: ast.FunctionDef) -> bool:
    return any(item.arg == "stream" for item in (*node.args.args, *node.args.kwonlyargs))


def _finding(op: str, state: State, what: str, where: str) -> Finding:
    return Finding(provider=PROVIDER, op=op, state=state, what=what, where=where, caller=f"providers/{PROVIDER}: {op}")
