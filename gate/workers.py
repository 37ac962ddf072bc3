"""A process that was forked to work for this one: it ends with it, and holds none of its locks."""

from __future__ import annotations

import os
import signal
from multiprocessing import parent_process
from threading import Thread

from gate import locks


def begin() -> None:
    """Readies the process: it gives back the locks it was born with, ends with its parent, and leaves Ctrl-C to it."""
    locks.disown()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
