"""Finds the dial that slows a kernel by what is asked: by bracketing, since memory-bound kernels hide work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Search:
    """`slower` tells the share by which a dial slows the kernel; what it has told is kept in `seen`."""

    slower: Callable[[int], float]
    seen: dict[int, float] = field(default_factory=lambda: {0: 0.0})

    def reach(self, most: float, *, first: int, factor: int, limit: int) -> None:
        """Turns the dial up from `first` until it does `most`, and never to `limit`."""
        rounds = first
        while max(self.seen.values()) < most and rounds < limit:
            self.seen[rounds] = self.slower(rounds)
            rounds *= factor

    def near(self, target: float, *, tries: int, enough: float = 0.0) -> int:
        """The dial that comes nearest to `target`, after so many further tries, or once one below it is off by less
        than the share `enough` of it."""
        for _ in range(tries):
            below = max(value for value, by in self.seen.items() if by <= target)
            above = min((value for value, by in self.seen.items() if by > target and value > below), default=below + 1)
            middle = (below + above) // 2
            if middle in self.seen or abs(self.seen[below] / target - 1) < enough:
                break
            self.seen[middle] = self.slower(middle)
        return min(self.seen, key=lambda value: abs(self.seen[value] - target))
