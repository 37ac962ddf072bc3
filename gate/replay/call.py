"""How a provider calls a function of a package that the gate does not hold: by its place and its arguments' names.

`gate doctor --contracts` reads every call of `call` in the providers' sources and holds it against the function's
signature in a checkout. So places are literal strings, arguments have literal names, and nothing is unpacked; of a
table of calls the lines are read (see `gate.contracts.calls`).
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gate.replay.provider import NoKernel

FIXED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def call(*places: str, **arguments: Any) -> functools.partial[Any]:
    """A call, ready to be made, of the function at the first of `places` (`pkg.module:function`, newest first).

    Arguments are handed over by position where the function shows its names, for compiled functions behind a stub
    may name theirs otherwise. Raises NoKernel when no place has the function, or when its signature lacks an argument
    or asks for another, with what it looks like.
    """
    function = find(*places)
    return prepared(function, arguments, name=places[0])


def listed(function: str, *, at: Sequence[str], given: Mapping[str, Any]) -> functools.partial[Any]:
    """`call` for a line of a table, whose literals say what is called: the function, from the first of the modules."""
    return call(*(f"{module}:{function}" for module in at), **given)


def find(*places: str) -> Any:
    """The function or class at the first place that exists.

    Raises NoKernel, and what an import that fails for another reason raises.
    """
    for place in places:
        module, _, name = place.partition(":")
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            # The module or a package it lies in is absent; what it imports may be absent for a reason worth telling.
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            continue
        if callable(found):
            return found
    raise NoKernel(f"API changed: there is no {' or '.join(places)}")


def prepared(function: Callable[..., Any], arguments: Mapping[str, Any], *, name: str) -> functools.partial[Any]:
    """`function` with its arguments in place. Raises NoKernel when they do not fit its signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return functools.partial(function, **arguments)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        # A wrapper of anything: what it wraps knows the names.
        return functools.partial(function, **arguments)
    try:
        bound = signature.bind(**arguments)
    except TypeError as error:
        raise NoKernel(f"API changed: {name}{signature} is called otherwise: {error}") from None
    bound.apply_defaults()
    last = max((index for index, key in enumerate(bound.arguments) if key in arguments), default=-1)
    kept = [key for index, key in enumerate(bound.arguments) if index <= last]
    fixed = [key for key in kept if signature.parameters[key].kind in FIXED]
    named = {key: bound.arguments[key] for key in kept if key not in fixed and key in arguments}
    return functools.partial(function, *(bound.arguments[key] for key in fixed), **named)
