"""The options of the simulated GPU, read from text; needs no numpy, so that a command line can be checked by it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

# Beyond it a size in bytes or a time in nanoseconds is no longer a whole number.
LARGEST = 1e9
MOST_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """What the simulated GPU does. Times in microseconds, sizes in MiB, `noise` a fraction of each replay's time.

    `drift_after` canaries, the clock drops by `drift`: that is how a session that must stop is simulated; after
    `canaries` of them no process can take one. With `profiler` 0 it sees no kernel. With `lends`
    0 no memory can be shared between processes, with -1 whoever tries dies, as of a broken driver. While the file
    `gone` exists, every process fails at every command.
    """

    floor: float = 4.0
    gap: float = 1.0
    noise: float = 0.002
    seed: int = 0
    l2: float = 1.0
    mall: float = 0.0
    memory: float = 1024.0
    warm: float = 0.5
    drift: float = 0.0
    drift_after: int = 1_000_000
    canaries: int = 1_000_000
    profiler: int = 1
    gone: str = ""
    lends: int = 1


KINDS: dict[str, Any] = {field.name: type(field.default) for field in fields(SimOptions)}
# The least value, where it is not 0: the clock may also rise, but not stand still.
LEAST = {"drift": -0.99, "lends": -1}


def parse(text: str) -> SimOptions:
    """`key=value,...` over SimOptions. Raises ValueError with the option that is wrong, and why."""
    values: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, separator, value = item.partition("=")
        if key not in KINDS:
            raise ValueError(f"{item[:MOST_SHOWN]}: there is no such option; there are {', '.join(KINDS)}")
        if not separator:
            raise ValueError(f"{item} is not {key}=VALUE")
        values[key] = _value(item[:MOST_SHOWN], key, value)
    return SimOptions(**values)


def _value(item: str, key: str, text: str) -> float | int | str:
    kind = KINDS[key]
    if kind is str:
        return text
    try:
        found = float(text) if kind is float else int(text)
    except ValueError:
        raise ValueError(f"{item} is not a {'whole ' if kind is int else ''}number") from None
    # No number that is none lies between others.
    if not LEAST.get(key, 0) <= found <= LARGEST:
        raise ValueError(f"{item} is not between {LEAST.get(key, 0):g} and {LARGEST:g}")
    return found
