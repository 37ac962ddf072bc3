"""How long work shows itself: a live bar in a terminal, log groups in GitHub Actions, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PLAIN_EVERY_S = 5.0


class Step(Protocol):
    """Tells that one more item of the work is done, and which."""

    def __call__(self, item: str, /) -> None: ...


@contextmanager
def progress(title: str, total: int) -> Iterator[Step]:
    """Shows `total` items of work on stderr while the block runs; call the yielded step after each item."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        yield from _grouped(title, total)
    elif sys.stderr.isatty():
        yield from _live(title, total)
    else:
        yield from _plain(title, total)


def _live(title: str, total: int) -> Iterator[Step]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)

        def step(item: str, /) -> None:
            bar.update(task, advance=1, description=f"{title}: {item[:48]}")

        yield step


def _grouped(title: str, total: int) -> Iterator[Step]:
    print(f"::group::{title} ({total})", file=sys.stderr, flush=True)
    done = 0

    def step(item: str, /) -> None:
        nonlocal done
        done += 1
        # A line that starts with `::` would be read as a workflow command.
        print(f"  {done}/{total} {item}", file=sys.stderr, flush=True)

    try:
        yield step
    finally:
        print("::endgroup::", file=sys.stderr, flush=True)


def _plain(title: str, total: int) -> Iterator[Step]:
    print(f"{title}: {total} in all", file=sys.stderr, flush=True)
    started = told = time.monotonic()
    done = 0

    def step(item: str, /) -> None:
        nonlocal done, told
        done += 1
        now = time.monotonic()
        if now - told >= PLAIN_EVERY_S or done == total:
            told = now
            left = (now - started) / done * (total - done)
            print(f"{title}: {done} of {total}, about {left:.0f} s left", file=sys.stderr, flush=True)

    yield step
