"""The device memory that a lane's workers share: made by the first that is asked, mapped by the others.

The coordinator keeps the open file, so that the memory outlives the worker that made it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gate.replay.link import Link, WorkerDied

Reply = dict[str, Any]
DEATHS_FORGIVEN = 3


class SharedMemory:
    """See the module. `refusal` is why this session's arms have memory of their own, or None."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._descriptor: int | None = None
        self._holders: set[int] = set()
        self._deaths = 0
        self.size = 0
        self.refusal: str | None = None

    def reach(self, link: Link, ask: Callable[[Reply], Reply]) -> bool:
        """Whether the worker behind `link` has the memory mapped; it is asked to, over `ask`, if it has not yet.

        Raises WorkerDied."""
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
            self._refuse(str(reply["reason"]))
            return False
        self._holders.add(link.pid)
        return True

    def cost_a_worker(self, death: WorkerDied) -> None:
        """A worker died of sharing, or by chance meanwhile: what kills by itself is not tried again."""
        self._deaths += 1
        if not death.outside or self._deaths > DEATHS_FORGIVEN:
            self._refuse(f"sharing it cost a worker: {death.reason}")

    def _refuse(self, reason: str) -> None:
        self.refusal = reason
        self.close()

    def close(self) -> None:
        """Lets the memory go; the workers' own mappings end with them."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
