"""The package's Triton kernels with a dial: the same source and `extra` rounds of dependent arithmetic at its end.

A provider from outside the package, named in a matrix as `tests.bench.dialled:Adapter`. The dial of a shape is its
entry in the JSON file that DIAL_TABLE names ({shape_id: rounds}), else `DIAL.rounds`, else 0. With 0 rounds head and
base run one and the same binary; the rounds are an argument, so that another dial is no other kernel.
"""

from __future__ import annotations

import ast
import functools
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
# The store never happens, but the compiler cannot know it. Where it goes is an argument of its own: what a kernel
# writes to may be None for one shape, or no pointer at all.
TAIL = """
dial_value = extra * 1.0
for dial_round in range(extra):
    dial_value = dial_value * 1.0000001 - 1e-9
tl.store(dial_sink, dial_value, mask=dial_value > 1e30)
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
    """A device function that asks which program it is; what others call is told."""
    return isinstance(node, ast.FunctionDef) and "tl.program_id(" in ast.unparse(node)


def dialled_source(source: str) -> tuple[str, list[str]]:
    """The module's source with a dial at the end of each kernel, and the names of those kernels.

    Programs that leave early, as they have nothing to do, leave without it.
    """
    tree, names = ast.parse(source), []
    for node in tree.body:
        if not _is_kernel(node):
            continue
        assert isinstance(node, ast.FunctionDef)
        node.args.args += [ast.arg(arg="extra"), ast.arg(arg="dial_sink")]
        node.body += ast.parse(TAIL).body
        node.decorator_list = [ast.parse("triton.jit(do_not_specialize=['extra'])", mode="eval").body]
        names.append(node.name)
    return ast.unparse(ast.fix_missing_locations(tree)), names


@functools.cache
def _sink(device: str) -> Any:
    import torch

    return torch.zeros(1, dtype=torch.float32, device=device)


def sink_beside(arguments: tuple[Any, ...]) -> Any:
    """A float on the device of a launch's tensors, or of the tensors that its descriptors describe."""
    tensors = (one.base if hasattr(one, "block_shape") else one for one in arguments)
    return _sink(str(next(one.device for one in tensors if hasattr(one, "device"))))


class Dialled:
    """Stands in a kernel's place and hands the dial on."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, grid: Any) -> Any:
        launch = self.function[grid]
        return lambda *given, **named: launch(*given, **named, extra=DIAL.launching, dial_sink=sink_beside(given))

    def warmup(self, *given: Any, **named: Any) -> Any:
        return self.function.warmup(*given, **named, extra=0, dial_sink=sink_beside(given))

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
        self.tunes_itself = self.inner.tunes_itself

    def supports(self, case: Case) -> str | None:
        return self.inner.supports(case)

    def compile(self, case: Case) -> None:
        self.inner.compile(case)

    def prepare(self, case: Case, tensors: Tensors) -> Any:
        # What is tried here, to choose a kernel's options, is tried without the dial: head and base choose alike.
        DIAL.launching = 0
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
