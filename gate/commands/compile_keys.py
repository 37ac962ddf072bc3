"""Which compile keys are meant by a part of one: its fields must match whole, unless `*` says otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gate.model.problem import Problem

# What stands between the fields of a key, such as rmsnorm/bf16/N=4096,vec=8.
_BETWEEN = "/,"
MOST_NEAR = 8


def matching(part: str, keys: Iterable[str]) -> list[str]:
    """The keys that have the fields of `part` beside each other, in order; `*` stands for the rest of a field."""
    words = f"[^{_BETWEEN}]*".join(re.escape(word) for word in part.strip(_BETWEEN).split("*"))
    wanted = re.compile(f"(?:^|[{_BETWEEN}]){words}(?:$|[{_BETWEEN}])")
    return sorted(key for key in keys if part and wanted.search(key))


def none_such(part: str, keys: Iterable[str]) -> Problem:
    """That no key is meant by `part`, and which ones merely contain it."""
    near = sorted({key for key in keys if part in key})
    if not near:
        return Problem(what=f"no compile key has {part}", file="", fix="see the compile keys of a recorded folder")
    more = f" and {len(near) - MOST_NEAR} more" if len(near) > MOST_NEAR else ""
    what = f"no compile key has {part} as whole fields; it is part of {', '.join(near[:MOST_NEAR])}{more}"
    return Problem(what=what, file="", fix=f"name whole fields, or write {part}* for all that begin so")
