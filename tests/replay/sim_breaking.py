"""Kernels for the simulated GPU, one for each way in which a kernel can end its process, hang or run out of memory."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from gate.replay.device import OutOfMemory
from gate.replay.device_sim import current
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, ProviderAdapter
from tests.replay.sim_op import launch_work, of_rmsnorm, once, us_of


def _breaks(how: Any) -> ProviderAdapter:
    def bind(case: Case, tensors: Tensors) -> Launch:
        def launch() -> None:
            if case.args.get("breaks"):
                how()
            launch_work(tensors, us=us_of(case))

        return launch

    return of_rmsnorm(bind)


@of_rmsnorm
def hangs_in_build(case: Case, tensors: Tensors) -> Launch:
    """Hangs as its ring is made in memory that is shared, which is after the pilot."""
    if case.args.get("breaks") and current().is_shared(tensors["x"]):
        once("building")
        time.sleep(3600)
    return lambda: launch_work(tensors)


def _raise(error: BaseException) -> Any:
    raise error


segfault = _breaks(lambda: os.kill(os.getpid(), signal.SIGSEGV))
aborts = _breaks(os.abort)
hangs = _breaks(lambda: time.sleep(3600))
leaves = _breaks(lambda: os._exit(3))
killed_once = _breaks(lambda: os.kill(os.getpid(), signal.SIGKILL) if once("killed") else None)
killed_always = _breaks(lambda: os.kill(os.getpid(), signal.SIGKILL))
no_memory = _breaks(lambda: _raise(OutOfMemory("the card is full")))
no_memory_once = _breaks(lambda: _raise(OutOfMemory("the card is full")) if once("crowded") else None)
raises = _breaks(lambda: _raise(ValueError("tile does not divide N")))
chatty = _breaks(lambda: os.write(1, b"{not json\n"))
