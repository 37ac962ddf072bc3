"""How the options of a kernel are chosen: the quickest of a few, tried once for a shape and kept on disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import triton

from gate.replay import compiling, scratch
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.triton.calls import Call, Launches, TritonAdapter, on_paper, warm_up
from gate.replay.providers.triton.common import version

Config = dict[str, Any]
UNFIT = (triton.runtime.errors.OutOfResources, triton.runtime.errors.PTXASError)
TRIES = 5
# Of the norm: configs differ in the order of sums and, between the products of experts, in the groups of a scale.
AGREE = 0.1
FLUSH_BYTES = 256 * 1024 * 1024
# One pass over them takes 30 to 60 us, the host up to 100 us for a call of several launches.
PASSES = 4
NO_GPU_UNITS = 132

_CHOSEN: dict[str, Config] = {}


def tuned_kernel(
    *,
    op: str,
    dtypes: Sequence[str],
    detail: str,
    configs: Callable[[Case], Sequence[Config]],
    calls: Callable[[Case, Tensors, Config], Sequence[Call]],
    key: Callable[[Case], Sequence[Any]],
) -> TritonAdapter:
    """A kernel of the `calls` in order that the quickest config of a case makes; `key` as for `choose`."""

    def compile_all(case: Case) -> None:
        tensors = on_paper(case)
        # What a choice would pass over for the GPU costs no more here; who wants the code wants that of every config.
        unfit = UNFIT if compiling.THREADS.get() else ()
        warm_up((call for config in configs(case) for call in calls(case, tensors, config)), but=unfit)

    def bind(case: Case, tensors: Tensors) -> Launches:
        def build(config: Config) -> Launches:
            words = " ".join(f"{name}={value}" for name, value in config.items())
            return Launches(calls(case, tensors, config), chosen=words)

        return build(choose(op, configs(case), key(case), build, tensors["out"]))

    return TritonAdapter(
        bind=bind,
        op_type=op,
        provider="triton",
        dtypes=tuple(dtypes),
        detail=detail,
        compiler=compile_all,
        version=version,
        name=op,
    )


def choose(
    name: str, configs: Sequence[Config], key: Sequence[Any], build: Callable[[Config], Launch], out: Any
) -> Config:
    """The quickest config for a shape, kept on disk so that every process that runs this code uses the same one.

    `key` says what the choice depends on beside the configs: the shape and the kernels' source. A config whose `out`
    is not the first one's is not taken. In Triton's interpreter the first one is taken. Raises RuntimeError if none
    fits the GPU.
    """
    if interpreted() or len(configs) == 1:
        return configs[0]
    target = triton.runtime.driver.active.get_current_target()
    text = f"{name}:{list(configs)}:{list(key)}:{target}:{triton.__version__}"
    code = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if code not in _CHOSEN:
        path = _cache_folder() / f"{code}.json"
        try:
            _CHOSEN[code] = json.loads(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            _CHOSEN[code] = _kept(path, _quickest(name, configs, build, out))
    return _CHOSEN[code]


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def units() -> int:
    """Multiprocessors or compute units of the GPU; without one, those of an H200."""
    if not torch.cuda.is_available():
        return NO_GPU_UNITS
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def workspace(role: str, elements: int, dtype: Any, place: str) -> Any:
    """At least so many zeroed elements for one role in a launch, shared by all launches of a ring in turn."""
    whole = int(triton.next_power_of_2(elements))
    piece = scratch.take(role, whole, dtype)
    return _workspace(role, whole, dtype, place) if piece is None else piece


@functools.cache
def _workspace(role: str, elements: int, dtype: Any, place: str) -> Any:
    # Kept for good, since recorded graphs hold its address; powers of two keep the sum below twice the largest.
    del role
    return torch.zeros(elements, dtype=dtype, device=place)


def _cache_folder() -> Path:
    default = Path.home() / ".triton" / "cache"
    return Path(os.environ.get("TRITON_CACHE_DIR") or default) / "gate-tuned"


def _kept(path: Path, config: Config) -> Config:
    """Writes the choice down, or takes the one that another process has written meanwhile, if that can be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        json.dump(config, file)
    try:
        os.link(name, path)
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            found: Config = json.loads(path.read_text(encoding="ascii"))
            return found
        # A damaged choice, or a file system without links.
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
    return config


def _quickest(name: str, configs: Sequence[Config], build: Callable[[Config], Launch], out: Any) -> Config:
    times: dict[int, float] = {}
    first: Any = None
    for index, config in enumerate(configs):
        try:
            us = _quick_us(build(config))
        except UNFIT:
            continue
        result = out.to(torch.float32, copy=True)
        first = result if first is None else first
        if float((result - first).norm()) <= AGREE * float(first.norm()):
            times[index] = us
    if not times:
        raise RuntimeError(f"no configuration of {len(configs)} of {name} fits this GPU")
    return configs[min(times, key=lambda index: times[index])]


@functools.cache
def _flush_source() -> Any:
    return torch.ones(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")


def _quick_us(launch: Launch) -> float:
    """The least of a few event-timed calls on cold caches: a choice, not a measurement."""
    launch()
    pairs = []
    for _ in range(TRIES):
        # Reading it evicts, and keeps the GPU busy until all launches behind it have been enqueued.
        for _ in range(PASSES):
            _flush_source().sum()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        launch()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return min(float(start.elapsed_time(end)) * 1e3 for start, end in pairs)
