"""Knows how to find the first version whose code differs: a binary search that may skip versions, and its worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One version that was asked for: as the first, as the last, like neither, or skipped; `words` say more."""

    version: str
    state: str
    words: str = ""


class Bisected(msgspec.Struct, frozen=True, kw_only=True):
    """The last version like the first one, the first that differs, and what lies unmeasured between them."""

    last_same: str | None
    first_changed: str | None
    between: tuple[str, ...]
    steps: tuple[Step, ...]
    confidence: str


class Skip(Exception):
    """Raised for a version that cannot be measured; the message says why."""


class _Search:
    """The versions that were measured so far; the search narrows a bracket between two of them."""

    def __init__(self, versions: Sequence[str], signature: Callable[[str], tuple[object, str]]) -> None:
        self.versions, self.signature, self.last = versions, signature, len(versions) - 1
        self.steps: list[Step] = []
        self.seen: dict[int, object] = {}

    def measure(self, index: int) -> bool:
        """Whether the version could be measured. Raises Skip where an end cannot."""
        version = self.versions[index]
        try:
            self.seen[index], words = self.signature(version)
        except Skip as reason:
            if index in (0, self.last):
                raise
            self.steps.append(Step(version=version, state="skipped", words=str(reason)))
            return False
        like = "as the first" if self.seen[index] == self.seen[0] else _later(self.seen, index, self.last)
        self.steps.append(Step(version=version, state=like, words=words))
        return True

    def narrowed(self) -> tuple[int, int]:
        """The places of the last version like the first one and of the next measured one, which differs."""
        low, high, skipped = 0, self.last, set[int]()
        while inside := [index for index in range(low + 1, high) if index not in skipped]:
            middle = min(inside, key=lambda index: abs(2 * index - low - high))
            if not self.measure(middle):
                skipped.add(middle)
            elif self.seen[middle] == self.seen[0]:
                low = middle
            else:
                high = middle
        return low, high


def bisect(versions: Sequence[str], signature: Callable[[str], tuple[object, str]]) -> Bisected:
    """Search `versions`, oldest first, for the first whose signature is not that of the first version.

    `signature` measures one version and says in words what it saw, or raises Skip; then the nearest unmeasured
    version inside the bracket is asked instead. The search supposes that the code changed once; both ends and both
    neighbours of the answer are measured, and the confidence says what is left open. Raises Skip when an end cannot
    be measured.
    """
    search = _Search(versions, signature)
    search.measure(0)
    search.measure(search.last)
    seen, steps = search.seen, search.steps
    if seen[0] == seen[search.last]:
        told = "the first and the last version give the same code; what lies between was not searched"
        return Bisected(last_same=versions[-1], first_changed=None, between=(), steps=tuple(steps), confidence=told)
    low, high = search.narrowed()
    between = tuple(versions[low + 1 : high])
    return Bisected(
        last_same=versions[low],
        first_changed=versions[high],
        between=between,
        steps=tuple(steps),
        confidence=_confidence(between, whole=seen[high] == seen[search.last]),
    )


def _later(seen: dict[int, object], index: int, last: int) -> str:
    if index == last or last not in seen:
        return "as the last" if index == last else "changed"
    return "as the last" if seen[index] == seen[last] else "like neither end"


def _confidence(between: tuple[str, ...], *, whole: bool) -> str:
    near = (
        "both neighbours were compiled"
        if not between
        else f"not narrowed further: {', '.join(between)} cannot be compiled"
    )
    once = (
        "the first changed version already has the last one's code, so one change explains the whole difference"
        if whole
        else "the last version differs from the first changed one, so the code changed more than once"
    )
    return f"{near}; {once}"
