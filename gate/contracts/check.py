"""Holds the providers' calls against a checkout: what is there as called, and every way in which it is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gate.contracts.calls import Call
from gate.contracts.source import Checkout, Found

State = Literal["ok", "moved", "missing_module", "missing_function", "unknown_argument", "new_required_argument"]
# A call that still works: as written, or at an older place that the provider also knows.
FINE: frozenset[State] = frozenset({"ok", "moved"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one call stands to a checkout; `what` names the function and the argument, `where` file and line there."""

    provider: str
    op: str
    state: State
    what: str
    where: str
    caller: str

    @property
    def drift(self) -> bool:
        """Whether the call would fail."""
        return self.state not in FINE


def check_calls(calls: Iterable[Call], root: Path) -> Iterator[Finding]:
    """Every call against the checkout; a call with several faults gives several findings."""
    checkout = Checkout(root)
    for call in calls:
        yield from check_call(call, checkout)


def check_call(call: Call, checkout: Checkout) -> Iterator[Finding]:
    """One call: the first place that has the function counts, as it does when the call is made."""
    for index, place in enumerate(call.places):
        module, _, name = place.partition(":")
        try:
            found = checkout.find(module, name)
        except SyntaxError as error:
            yield _finding(call, "missing_module", f"{module} cannot be parsed: {error.msg}", f"{error.filename}")
            return
        if found is not None:
            faults = list(_faults(call, place, found))
            yield from faults
            if not faults:
                state: State = "moved" if index else "ok"
                yield _finding(call, state, place, f"{found.file}:{found.line}")
            return
    yield _missing(call, checkout)


def _missing(call: Call, checkout: Checkout) -> Finding:
    module, _, name = call.places[0].partition(":")
    held = checkout.module(module)
    if held is None:
        return _finding(call, "missing_module", f"there is no {' or '.join(call.places)}", module.replace(".", "/"))
    names = [node.name for node in held.statements if hasattr(node, "name")]
    near = difflib.get_close_matches(name, names, n=1)
    told = f"{module} has no {name}" + (f"; the nearest name is {near[0]}" if near else "")
    return _finding(call, "missing_function", told, held.path.relative_to(checkout.root).as_posix())


def _faults(call: Call, place: str, found: Found) -> Iterator[Finding]:
    """What of the call the signature does not take, and what it asks for besides."""
    if call.arguments is None or found.parameters is None:
        return
    where, names = f"{found.file}:{found.line}", [item.name for item in found.parameters]
    fresh = [item.name for item in found.parameters if item.required and item.name not in call.arguments]
    for name in call.arguments:
        if name not in names and not found.anything:
            near = difflib.get_close_matches(name, fresh or names, n=1, cutoff=0.5)
            told = f"; renamed to {near[0]}?" if near else ""
            yield _finding(call, "unknown_argument", f"{place} takes no {name}{told}", where)
    for name in fresh:
        yield _finding(call, "new_required_argument", f"{place} asks for {name}", where)


def _finding(call: Call, state: State, what: str, where: str) -> Finding:
    caller = f"{call.file}:{call.line}"
    return Finding(provider=call.provider, op=call.op, state=state, what=what, where=where, caller=caller)
