"""Knows how long to keep trying: which failure is worth another attempt, and how long to wait before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Refused(Exception):
    """GitHub said no, and will say no again: a missing permission, a locked conversation, a wrong value."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message


class Gone(Refused):
    """What was asked for does not exist (any more)."""


class Passing(Exception):
    """A failure that may pass, before anything was written; `wait_s` is how long GitHub asks to wait."""

    def __init__(self, message: str, *, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class Unknown(Exception):
    """A write that failed on its way back: it may have landed, so look before sending it again."""


class GaveUp(Exception):
    """The failures did not pass within the attempts or the longest wait."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long: `pause_s` doubles with every attempt, and no single wait is longer than `longest_s`."""

    attempts: int = 6
    pause_s: float = 1.0
    longest_s: float = 120.0
    sleep: Callable[[float], None] = time.sleep

    def pause(self, attempt: int, asked_s: float | None = None) -> None:
        """Waits before the attempt after `attempt`. Raises GaveUp where that would take too long."""
        wait_s = self.pause_s * 2**attempt if asked_s is None else asked_s
        if wait_s > self.longest_s:
            raise GaveUp(f"GitHub asks for {wait_s:.0f} s of patience")
        self.sleep(wait_s)


def persist(call: Callable[[], T], patience: Patience) -> T:
    """The result of `call`, tried again while its failures may pass and nothing was written.

    Raises GaveUp in the end; Refused and Unknown at once.
    """
    told = ""
    for attempt in range(patience.attempts):
        try:
            return call()
        except Passing as failure:
            told = str(failure)
            patience.pause(attempt, failure.wait_s)
    raise GaveUp(f"{told}; {patience.attempts} attempts")
