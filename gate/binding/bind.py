"""Finds a kernel of a FlyDSL checkout that it has never seen, and builds its launcher.

Standard library only. A recipe is plain data. It names where the builder may
be, the values it must take, the values it may take, and what each named argument of the launcher is; what the
signatures of this checkout really ask for is inspected, so that one recipe serves many versions.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

REFUSALS = (ValueError, AssertionError, NotImplementedError)
KIND = re.compile(r"\b(Tensor|Pointer|Stream|Constexpr|Int64|Int32|Float32)\b")
MAX_DEPTH = 6


class Unsupported(Exception):
    """The kernels do not offer what a case asks for; the message is the kernel's own, or what the API looks like."""


def module_file(root: Path, names: Sequence[str]) -> Path | None:
    """The file of the first of `names` that the checkout has, there or anywhere below its kernels by the file's name.

    A name that several files have stands for none of them.
    """
    for name in names:
        path = root.joinpath(*name.split(".")).with_suffix(".py")
        if path.is_file():
            return path
    for name in names:
        found = sorted(root.glob(f"kernels/**/{name.rpartition('.')[2]}.py"))
        if len(found) == 1:
            return found[0]
    return None


def find_module(root: Path, names: Sequence[str]) -> ModuleType:
    """Import the first of `names` that the checkout has. Raises Unsupported where it has none of them."""
    path = module_file(root, names)
    if path is None:
        raise Unsupported(f"this checkout has no {names[0].replace('.', '/')}.py")
    return import_module(".".join(path.relative_to(root).with_suffix("").parts))


def import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (ImportError, AttributeError) as error:
        # The module stays half-made in sys.modules otherwise, and the next case would see that instead of the reason.
        sys.modules.pop(name, None)
        raise Unsupported(f"API changed: {name} does not import: {error}") from None


def find_callable(module: ModuleType, names: list[str]) -> Callable[..., Any]:
    for name in names:
        found = getattr(module, name, None)
        if callable(found):
            return found  # type: ignore[no-any-return]
    file = Path(module.__file__ or module.__name__).name
    there = sorted(name for name in vars(module) if name.startswith(("build_", "compile_", "launch_")))
    raise Unsupported(f"API changed: expected {names[0]} in {file}, found {', '.join(there) or 'no builder'}")


def bound(function: Callable[..., Any], values: Mapping[str, Any], offers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments for a builder: all of `values`, and those of `offers` that it has.

    Raises Unsupported when it does not take one of `values`, or asks for more than both hold.
    """
    found = inspect.signature(function)
    names = [
        name for name, item in found.parameters.items() if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
    ]
    wanted = [name for name in names if found.parameters[name].default is inspect.Parameter.empty]
    if not set(values) <= set(names) or not set(wanted) <= {*values, *offers}:
        title = getattr(function, "__name__", "build")
        raise Unsupported(f"API changed: expected {title}({', '.join(values)}), found {title}{found}")
    return {name: values.get(name, offers.get(name)) for name in names if name in values or name in offers}


def call_builder(build: Callable[..., Any], recipe: Mapping[str, Any], module: ModuleType) -> Any:
    """Build the launcher. A constraint that the builder itself states becomes Unsupported, in the builder's words.

    Lists are passed as tuples, for builders are cached by their arguments; "$NAME" is a constant of the module.
    """
    arguments = bound(build, recipe["values"], recipe.get("offers", {}))
    try:
        return build(**{name: plain(value, module) for name, value in arguments.items()})
    except REFUSALS as error:
        raise Unsupported(constraint(error)) from None


def plain(value: Any, module: ModuleType) -> Any:
    if isinstance(value, str) and value.startswith("$"):
        if not hasattr(module, value[1:]):
            raise Unsupported(f"API changed: expected {value[1:]} in {module.__name__}, found none")
        return getattr(module, value[1:])
    return tuple(value) if isinstance(value, list) else value


def constraint(error: BaseException) -> str:
    """What an exception says; an assertion without words is quoted from the source instead."""
    words = " ".join(str(error).split())
    if not words:
        words = (traceback.extract_tb(error.__traceback__)[-1].line or type(error).__name__).strip()
    return words[:400]


def launchers(found: Any, jit_type: type, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield (name, callable) of every launcher that a builder's result holds: in tuples, dicts and closures."""
    if isinstance(found, jit_type):
        yield getattr(found.func, "__name__", ""), found  # type: ignore[attr-defined]
    elif depth < MAX_DEPTH and isinstance(found, (tuple, list)):
        for item in found:
            yield from launchers(item, jit_type, depth + 1)
    elif depth < MAX_DEPTH and isinstance(found, dict):
        for item in found.values():
            yield from launchers(item, jit_type, depth + 1)
    elif depth < MAX_DEPTH and isinstance(found, functools.partial):
        yield from launchers(found.func, jit_type, depth + 1)
    elif depth < MAX_DEPTH and inspect.isfunction(found):
        for cell in found.__closure__ or ():
            yield from launchers(contents(cell), jit_type, depth + 1)


def contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def choose(found: Any, names: list[str], jit_type: type) -> Any:
    """Pick what to call from a builder's result: the named launcher, a wrapper as it is, or the only launcher."""
    inside = dict(launchers(found, jit_type))
    for name in names:
        if name in inside:
            return inside[name]
    if names:
        raise Unsupported(f"API changed: expected a launcher {names[0]}, found {', '.join(inside) or 'none'}")
    if isinstance(found, jit_type) or inspect.isfunction(found):
        return found
    if len(inside) != 1:
        raise Unsupported(f"API changed: expected one launcher, found {', '.join(inside) or type(found).__name__}")
    return next(iter(inside.values()))


def kinds(launcher: Any, jit_type: type) -> dict[str, str]:
    """Return what each argument is by the annotations of the launcher and, for a wrapper, of the launcher inside."""
    found: dict[str, str] = {}
    for _, jit in [*launchers(launcher, jit_type), ("", launcher)]:
        for name, item in inspect.signature(getattr(jit, "func", jit)).parameters.items():
            note = item.annotation
            text = note if isinstance(note, str) else getattr(note, "__name__", "") + " " + repr(note)
            match = KIND.search("Constexpr" if "Constexpr" in text else text)
            if match and note is not inspect.Parameter.empty:
                found[name] = match.group(1)
    return found
