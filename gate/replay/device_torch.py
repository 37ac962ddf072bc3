"""A real GPU through torch: CUDA and HIP share this code, since torch gives both the same names."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from gate.replay.canary_torch import TorchCanary
from gate.replay.chips import MIB, chip_for
from gate.replay.device import CaptureFailed, DeviceError, Facts, KernelTime, Run
from gate.replay.shared_torch import SharedTorchMemory

LEGACY_FLUSH_BYTES = 256 * MIB


class TorchGraph:
    """One captured graph."""

    def __init__(self, graph: Any, kept: bool) -> None:
        self.graph = graph
        self._kept = kept

    def nodes(self) -> tuple[str, ...] | None:
        from gate.replay.graph_nodes import kernel_nodes

        return kernel_nodes(self.graph.raw_cuda_graph()) if self._kept else None

    def close(self) -> None:
        self.graph.reset()


class TorchDevice(SharedTorchMemory):
    """The first GPU that this process may see."""

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise DeviceError(f"torch cannot be imported: {error}", fatal=True) from None
        if not torch.cuda.is_available():
            raise DeviceError("torch sees no GPU", fatal=True)
        super().__init__("cuda", _arch(torch))
        self._stream = torch.cuda.Stream()
        torch.cuda.set_stream(self._stream)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_grad_enabled(False)
        self.facts = self._read_facts()
        self._flush_source: Any = None
        self._flush_sink: Any = None
        self._legacy: Any = None
        self._canary: TorchCanary | None = None

    def _read_facts(self) -> Facts:
        torch = self._torch
        properties = torch.cuda.get_device_properties(0)
        hip = torch.version.hip
        return Facts(
            gpu=properties.name,
            arch=_arch(torch),
            runtime=f"rocm {hip}" if hip else f"cuda {torch.version.cuda}",
            chip=chip_for(properties.name, l2_bytes=int(getattr(properties, "L2_cache_size", 0)), amd=bool(hip)),
            total_bytes=int(properties.total_memory),
            uuid=str(getattr(properties, "uuid", "")),
        )

    def run(self, run: Run) -> None:
        run()
        self._torch.cuda.synchronize()

    def capture(self, run: Run) -> TorchGraph:
        torch = self._torch
        torch.cuda.synchronize()
        try:
            graph, kept = torch.cuda.CUDAGraph(keep_graph=True), True
        except TypeError:
            graph, kept = torch.cuda.CUDAGraph(), False
        # A collection during capture could free a graph or a tensor, which a capturing stream does not survive.
        gc.disable()
        try:
            # thread_local: work that a kernel starts on another stream is seen by integrity check 1, not masked.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                run()
            finally:
                graph.capture_end()
            if kept:
                graph.instantiate()
        except RuntimeError as error:
            raise CaptureFailed(first_line(error)) from error
        finally:
            gc.enable()
        return TorchGraph(graph, kept)

    def replay(self, graph: Any) -> None:
        graph.graph.replay()
        self._torch.cuda.synchronize()

    def _event(self) -> Any:
        return self._torch.cuda.Event(enable_timing=True)

    def timed(self, graphs: Sequence[Any], *, flush: bool) -> list[float]:
        pairs = [(self._event(), self._event()) for _ in graphs]
        # Asked for once, as each asking takes as long as a short kernel.
        stream = self._torch.cuda.current_stream()
        for graph, (start, end) in zip(graphs, pairs, strict=True):
            if flush:
                self._flush()
            start.record(stream)
            graph.graph.replay()
            end.record(stream)
        self._torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in pairs]

    def _flush(self) -> None:
        if self._flush_source is None:
            elements = self.facts.chip.evict_bytes // 4
            self._flush_source = self._torch.ones(elements, dtype=self._torch.float32, device="cuda")
            self._flush_sink = self._torch.empty((), dtype=self._torch.float32, device="cuda")
        # Reading evicts without leaving dirty lines behind, which a zero-fill does.
        self._torch.sum(self._flush_source, dim=0, out=self._flush_sink)

    def timed_legacy(self, graph: Any, repeats: int) -> list[float]:
        if self._legacy is None:
            self._legacy = self._torch.empty(LEGACY_FLUSH_BYTES // 4, dtype=self._torch.int32, device="cuda")
        pairs = [(self._event(), self._event()) for _ in range(repeats)]
        for start, end in pairs:
            self._legacy.zero_()
            start.record()
            graph.graph.replay()
            end.record()
        self._torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in pairs]

    def timed_eager(self, run: Run, repeats: int) -> list[float]:
        times = []
        for _ in range(repeats):
            start, end = self._event(), self._event()
            start.record()
            run()
            end.record()
            self._torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
        return times

    def empty(self) -> None:
        self._torch.cuda._sleep(0)

    def read(self, tensor: Any) -> None:
        from gate.replay.probe import read_all

        read_all(tensor)

    def profile(self, run: Run) -> tuple[KernelTime, ...]:
        torch = self._torch
        # The profiled call must find the caches as the timed ones do.
        self._flush()
        torch.cuda.synchronize()
        # torch.profiler's own start imports the whole compiler, which takes each worker seconds.
        with torch.autograd.profiler.profile(use_cpu=False, use_device="cuda", use_kineto=True) as profiler:
            run()
            torch.cuda.synchronize()
        on_gpu = torch.autograd.DeviceType.CUDA
        return tuple(
            KernelTime(name=event.name, us=event.time_range.elapsed_us())
            for event in profiler.function_events or ()
            if event.device_type == on_gpu and not event.name.startswith(("Memcpy", "Memset"))
        )

    def canary(self, warm: int) -> dict[str, float]:
        self._canary = self._canary or TorchCanary(self._torch, self.capture)
        return self._canary.times_us(warm, lambda graphs: self.timed(graphs, flush=False))

    def warm_profiler(self) -> None:
        # Its first use loads and attaches the vendor's tracing library, which takes seconds.
        self.profile(self.empty)

    def begin(self, label: str) -> None:
        del label

    def free_bytes(self) -> int:
        torch = self._torch
        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())

    def trim(self, share: float) -> None:
        # Unmapping takes its time, collecting more: each waits until there is something to gain.
        cuda, most = self._torch.cuda, share * self.facts.total_bytes
        for collect in (False, True):
            if cuda.memory_reserved() - cuda.memory_allocated() <= most:
                return
            if collect:
                gc.collect()
            cuda.empty_cache()


def _arch(torch: Any) -> str:
    """The GPU's architecture as its compiler names it."""
    properties = torch.cuda.get_device_properties(0)
    if torch.version.hip:
        return str(properties.gcnArchName.split(":")[0])
    return f"sm_{properties.major}{properties.minor}"


def first_line(error: BaseException) -> str:
    """The first non-blank line of an error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
