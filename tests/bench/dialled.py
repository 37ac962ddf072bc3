"""The package's Triton kernels with a dial: the same source and `extra` rounds of dependent arithmetic at its end.

A provider from outside the package, named in a matrix as `tests.bench.dialled:Adapter`. The dial of a shape is its
entry in the JSON file that DIAL_TABLE names ({shape_id: rounds}), else `DIAL.rounds`, else 0. With 0 rounds head and
base run one and the same binary; the rounds are an argument, so that another dial is no other kernel.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gate.replay.op import Case, Tensors
from gate.replay.provider import ProviderAdapter, load_entrypoint

KERNELS = "gate.replay.providers.triton.kernels"
DOMAIN = "gate.replay.providers.triton"
TAIL = """
dial_value = extra * 1.0
for dial_round in range(extra):
    dial_value = dial_value * 1.0000001 - 1e-9
tl.store({out}, dial_value.to({out}.dtype.element_ty), mask=dial_value > 1e30)
"""


class Dial:
    """What the next launch adds; the table is read once."""

    def __init__(self) -> None:
        self.rounds = 0
        self.launching = 0
        path = os.environ.get("DIAL_TABLE")
        self.table: dict[str, int] = json.loads(Path(path).read_text()) if path else {}

    def of(self, shape_id: str) -> int:
        return self.table.get(shape_id, self.rounds)


DIAL = Dial()
INSTALLED: set[str] = set()


def _is_kernel(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and "tl.store(" in ast.unparse(node) and "program_id" in ast.unparse(node)


def _target(function: ast.FunctionDef) -> str | None:
    """The parameter that the last store writes to: the dial's own store, which never happens, needs a pointer."""
    names = {argument.arg for argument in function.args.args}
    assigned = {
        node.targets[0].id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    stores = [node for node in calls if ast.unparse(node.func) == "tl.store"]
    for store in sorted(stores, key=lambda node: -node.lineno):
        place: ast.AST = store.args[0]
        for _ in range(5):
            found = next((n.id for n in ast.walk(place) if isinstance(n, ast.Name) and n.id in names), None)
            if found is not None:
                return found
            local = next((n.id for n in ast.walk(place) if isinstance(n, ast.Name) and n.id in assigned), None)
            if local is None:
                break
            place = assigned[local]
    return None


def dialled_source(source: str) -> tuple[str, list[str]]:
    """The module's source with a dial in each kernel, and the names of those kernels."""
    tree, names = ast.parse(source), []
    for node in tree.body:
        if not _is_kernel(node):
            continue
        assert isinstance(node, ast.FunctionDef)
        out = _target(node)
        if out is None or any(isinstance(part, ast.Return) for part in ast.walk(node)):
            continue
        node.args.args.append(ast.arg(arg="extra"))
        node.body += ast.parse(TAIL.format(out=out)).body
        node.decorator_list = [ast.parse("triton.jit(do_not_specialize=['extra'])", mode="eval").body]
        names.append(node.name)
    return ast.unparse(ast.fix_missing_locations(tree)), names


class Dialled:
    """Stands in a kernel's place and hands the dial on."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, grid: Any) -> Any:
        launch = self.function[grid]
        return lambda *given, **named: launch(*given, **named, extra=DIAL.launching)

    def warmup(self, *given: Any, **named: Any) -> Any:
        return self.function.warmup(*given, **named, extra=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


def install() -> None:
    """Puts dialled kernels in the place of the package's, in this process."""
    package = importlib.import_module(KERNELS)
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{KERNELS}.{info.name}")
        if info.name in INSTALLED:
            continue
        INSTALLED.add(info.name)
        text, names = dialled_source(inspect.getsource(module))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        path = Path(tempfile.gettempdir()) / f"gate-dialled-{digest}" / f"dialled_{info.name}.py"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(text)
            part.replace(path)
        spec = importlib.util.spec_from_file_location(f"dialled_{info.name}", path)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = made
        spec.loader.exec_module(made)
        for name in names:
            setattr(module, name, Dialled(getattr(made, name)))


class Adapter(ProviderAdapter):
    """The package's kernel of an op, launched with the shape's dial."""

    provider = "triton"

    def __init__(self, op_type: str = "") -> None:
        super().__init__(op_type)
        install()
        self.inner = load_entrypoint(f"{DOMAIN}:{op_type}", op_type)
        self.detail = f"{self.inner.detail}; with a dial"
        self.includes_allocation = self.inner.includes_allocation
        self.includes_layout_conversion = self.inner.includes_layout_conversion
        self.includes_jit = self.inner.includes_jit

    def supports(self, case: Case) -> str | None:
        return self.inner.supports(case)

    def compile(self, case: Case) -> None:
        self.inner.compile(case)

    def prepare(self, case: Case, tensors: Tensors) -> Any:
        DIAL.launching = DIAL.of(case.shape_id)
        return case.shape_id, self.inner.prepare(case, tensors)

    def launch(self, state: Any) -> Mapping[str, Any] | None:
        shape_id, inner = state
        DIAL.launching = DIAL.of(shape_id)
        return self.inner.launch(inner)

    def workspaces(self, state: Any) -> tuple[Any, ...]:
        return self.inner.workspaces(state[1])

    def describe(self, case: Case) -> str:
        return f"{self.inner.describe(case)}; with a dial"

    def commit(self) -> str | None:
        return self.inner.commit()
