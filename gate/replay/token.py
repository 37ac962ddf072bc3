"""Who may use one GPU: many processes to prepare on it, one alone to measure on it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Token:
    """The right to run work on one GPU.

    `share` is for work that others may disturb: contexts, rings, graphs, checks. `hold` is for measurements, alone.
    Who waits to be alone goes before who would share, so that preparations gather and pass side by side. `alone_s` is
    how long it was held alone, `held_s` how long by anybody, `shared_s` how long by each that shared it, added up;
    `gpu_us` is the device work that was timed.
    """

    def __init__(self) -> None:
        self.alone_s = 0.0
        self.held_s = 0.0
        self.shared_s = 0.0
        self.gpu_us = 0.0
        self._turn = threading.Condition()
        self._alone = False
        self._sharing = 0
        self._waiting = 0
        self._since = 0.0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Alone on the GPU."""
        with self._turn:
            self._waiting += 1
            try:
                self._turn.wait_for(lambda: not self._alone and self._sharing == 0)
            finally:
                self._waiting -= 1
            self._alone, self._since = True, time.perf_counter()
        try:
            yield
        finally:
            with self._turn:
                self._alone = False
                took = time.perf_counter() - self._since
                self.alone_s += took
                self.held_s += took
                self._turn.notify_all()

    @contextmanager
    def share(self, most: int = sys.maxsize) -> Iterator[None]:
        """On the GPU beside others that share it, if they are fewer than `most`."""
        with self._turn:
            self._turn.wait_for(lambda: not self._alone and self._waiting == 0 and self._sharing < most)
            began = time.perf_counter()
            if self._sharing == 0:
                self._since = began
            self._sharing += 1
        try:
            yield
        finally:
            with self._turn:
                self._sharing -= 1
                self.shared_s += time.perf_counter() - began
                if self._sharing == 0:
                    self.held_s += time.perf_counter() - self._since
                self._turn.notify_all()

    def spent(self, gpu_us: float) -> None:
        """Adds device work."""
        with self._turn:
            self.gpu_us += gpu_us
