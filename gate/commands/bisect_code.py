"""What code a version of a bisection runs, without a GPU: FlyDSL's machine code, or the sources as Python sees them."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from gate import store
from gate.codegen import toolchains
from gate.codegen.keys import CompileCase, Unsupported
from gate.commands.codegen_inputs import Kernels, compiled, kernels_of
from gate.model.problem import UnusableInput
from gate.model.shape import Shape
from gate.model.text import counted

# What no interpreter and no build reads.
UNREAD = (".md", ".rst")
HIDDEN = "."


def of_machine(shape: Shape, *, checkout: Path | None, python: str, limits: Mapping[str, Any]) -> tuple[str, str]:
    """Signature and words of the gfx950 code that serves the shape: instructions, launch form and status.

    The kernels of `checkout`, or the gate's own. An empty signature, with the reason, where there is no such code.
    """
    kernels = Kernels(folder=checkout) if checkout is not None else kernels_of(None, None)
    case = kernels.case_of(shape)
    if isinstance(case, Unsupported):
        return "", case.reason
    assert isinstance(case, CompileCase)
    try:
        records, _ = compiled([case], kernels, python, limits)
    except UnusableInput as error:
        return "", f"machine code not compared: {error.problems[0].what}"
    record = records[0]
    if record.metrics is None or record.isa_sha is None:
        return "", f"machine code not compared: {record.status}: {record.error}"
    found = record.metrics
    told = f"VGPR {found.vgpr}, {counted(found.instructions, 'instruction')}, {counted(found.waves_per_simd, 'wave')}"
    return f"isa {record.isa_sha} {record.launch_sha or ''}", told


def has_machine_code(tree: Path) -> bool:
    """Whether a folder is a FlyDSL checkout, whose kernels can be compiled without a GPU."""
    return toolchains.is_checkout(tree)


def of_sources(tree: Path, stored: Mapping[str, str], within: Sequence[str]) -> tuple[str, str]:
    """Signature and words of a tree's files, those below the folders `within`; `stored` is what Git keeps of each.

    Python files count by their syntax tree, in which comments and blank lines make no difference, all others by their
    bytes; documents and hidden files do not count.
    """
    inside = [PurePosixPath(folder) for folder in within]
    chosen = [name for name in sorted(stored) if _counts(PurePosixPath(name), inside)]
    digest = hashlib.sha256()
    for name in chosen:
        digest.update(os.fsencode(f"{name}\0{_one(tree / name, stored[name])}\0"))
    return f"sources {digest.hexdigest()[:32]}", counted(len(chosen), "source file")


def _counts(path: PurePosixPath, within: Sequence[PurePosixPath]) -> bool:
    hidden = any(part.startswith(HIDDEN) for part in path.parts)
    return not hidden and path.suffix not in UNREAD and any(path.is_relative_to(folder) for folder in within)


def _one(path: Path, stored: str) -> str:
    if path.is_symlink() or not path.is_file():
        # A link, or a submodule: of what it holds, Git knows the commit alone.
        return stored
    data = store.read_bytes(path)
    if path.suffix == ".py":
        try:
            return hashlib.sha256(ast.dump(ast.parse(data)).encode()).hexdigest()
        except (SyntaxError, ValueError, RecursionError):
            pass
    return hashlib.sha256(data).hexdigest()
