"""The device memory that a lane's workers share: made by the first that is asked, mapped by the others.

The coordinator keeps the open file, so that the memory outlives the worker that made it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gate.replay.link import Link

Reply = dict[str, Any]


class SharedMemory:
    """See the module. `refusal` is why this session's arms have memory of their own, or None."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._descriptor: int | None = None
        self._holders: set[int] = set()
        self.size = 0
        self.refusal: str | None = None

    def reach(self, link: Link, ask: Callable[[Reply], Reply]) -> bool:
        """Whether the worker behind `link` has the memory mapped; it is asked to, over `ask`, if it has not yet."""
        if self.refusal is not None or link.pid in self._holders:
            return self.refusal is None
        if self._descriptor is None:
            reply = ask({"do": "lend", "lanes": self._lanes})
            if reply["status"] == "ok":
                self._descriptor, self.size = link.take_file(), int(reply["bytes"])
        else:
            link.give_file(self._descriptor)
            reply = ask({"do": "borrow", "bytes": self.size})
        if reply["status"] != "ok":
            self.refusal = str(reply["reason"])
            return False
        self._holders.add(link.pid)
        return True

    def close(self) -> None:
        """Lets the memory go; the workers' own mappings end with them."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
