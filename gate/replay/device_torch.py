"""A real GPU through torch: CUDA and HIP share this code, since torch gives both the same names."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from typing import Any

from gate.replay.chips import MIB, chip_for
from gate.replay.device import CaptureFailed, Comparison, DeviceError, Facts, KernelTime, Run
from gate.replay.op import Tolerance

ALIGN_BYTES = 256
SPREAD_BYTES = 512 * MIB
FEW_COPIES = 64
CANARY_COPY_BYTES = 256 * MIB
CANARY_CYCLES = 100_000
CANARY_LAUNCHES = 8
TRIM_SHARE = 0.1
LEGACY_FLUSH_BYTES = 256 * MIB
TORCH_NAMES = {
    "fp32": "float32",
    "f32": "float32",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "int8": "int8",
    "int32": "int32",
}
# Exactly representable in its dtype, finite, and far from what a kernel computes from N(0, 1) inputs.
SENTINELS = {"float32": -30464.0, "bfloat16": -30464.0, "float16": -30464.0, "int8": -117, "int32": -1234567}


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


class TorchDevice:
    """The first GPU that this process may see."""

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise DeviceError(f"torch cannot be imported: {error}", fatal=True) from None
        if not torch.cuda.is_available():
            raise DeviceError("torch sees no GPU", fatal=True)
        self._torch = torch
        self._stream = torch.cuda.Stream()
        torch.cuda.set_stream(self._stream)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_grad_enabled(False)
        self.facts = self._read_facts()
        self._flush_source: Any = None
        self._flush_sink: Any = None
        self._legacy: Any = None
        self._canaries: dict[str, tuple[TorchGraph, TorchGraph]] | None = None
        self._canary_memory: tuple[Any, Any] | None = None

    def _read_facts(self) -> Facts:
        torch = self._torch
        properties = torch.cuda.get_device_properties(0)
        hip = torch.version.hip
        arch = properties.gcnArchName.split(":")[0] if hip else f"sm_{properties.major}{properties.minor}"
        return Facts(
            gpu=properties.name,
            arch=arch,
            runtime=f"rocm {hip}" if hip else f"cuda {torch.version.cuda}",
            chip=chip_for(properties.name, l2_bytes=int(getattr(properties, "L2_cache_size", 0)), amd=bool(hip)),
            total_bytes=int(properties.total_memory),
            uuid=str(getattr(properties, "uuid", "")),
        )

    def _dtype(self, name: str) -> Any:
        return getattr(self._torch, TORCH_NAMES[name])

    def stack(self, copies: int, shape: Sequence[int], dtype: str) -> Any:
        torch, kind = self._torch, self._dtype(dtype)
        step = -(-math.prod(shape) * kind.itemsize // ALIGN_BYTES) * ALIGN_BYTES // kind.itemsize
        # Where a copy lies moves its time; small copies are spread out so that they do not all lie in a few pages.
        spread = SPREAD_BYTES // (copies * ALIGN_BYTES) if copies > FEW_COPIES else 0
        units = max(-(-step * kind.itemsize // ALIGN_BYTES), spread)
        # An even stride would send every copy's first line to the same few memory channels.
        step = (units | 1 if copies > FEW_COPIES else units) * ALIGN_BYTES // kind.itemsize
        flat = torch.empty(copies * step, dtype=kind, device="cuda")
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return flat.as_strided((copies, *shape), (step, *strides))

    def normal(self, tensor: Any, seed: int, scale: float = 1.0) -> Any:
        generator = self._torch.Generator(device="cuda").manual_seed(seed % (1 << 63))
        return tensor.normal_(0.0, scale, generator=generator)

    def fill(self, tensor: Any, dtype: str) -> None:
        tensor.fill_(SENTINELS[TORCH_NAMES[dtype]])

    def untouched(self, tensor: Any, dtype: str) -> int:
        return int((tensor == SENTINELS[TORCH_NAMES[dtype]]).sum().item())

    def compare(self, out: Any, reference: Any, tolerance: Tolerance) -> Comparison:
        value = out.float()
        error = (value - reference).abs()
        bad = (~(error <= reference.abs().mul_(tolerance.rtol).add_(tolerance.atol))).sum()
        nonfinite = (~value.isfinite()).sum()
        largest = error.nan_to_num_(nan=0.0, posinf=0.0).max()
        found = self._torch.stack([bad.double(), nonfinite.double(), largest.double()]).tolist()
        return Comparison(bad=int(found[0]), nonfinite=int(found[1]), total=out.numel(), max_abs=found[2])

    def digest(self, tensors: Sequence[Any]) -> tuple[int, ...]:
        torch = self._torch
        sums = []
        for tensor in tensors:
            flat = tensor.contiguous().view(-1).view(torch.uint8)
            wide = flat.view(torch.int32) if flat.numel() % 4 == 0 else flat
            sums.append(wide.sum(dtype=torch.int64))
        return tuple(int(value.item()) for value in sums)

    def describe(self, tensor: Any) -> tuple[tuple[int, ...], str]:
        torch_name = str(tensor.dtype).removeprefix("torch.")
        return tuple(tensor.shape), {full: short for short, full in reversed(TORCH_NAMES.items())}.get(
            torch_name, torch_name
        )

    def nbytes(self, tensor: Any) -> int:
        return int(tensor.numel() * tensor.element_size())

    def copy(self, destination: Any, source: Any) -> None:
        destination.copy_(source)

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
        for graph, (start, end) in zip(graphs, pairs, strict=True):
            if flush:
                self._flush()
            start.record()
            graph.graph.replay()
            end.record()
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
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            run()
            torch.cuda.synchronize()
        on_gpu = torch.autograd.DeviceType.CUDA
        return tuple(
            KernelTime(name=event.name, us=event.time_range.elapsed_us())
            for event in profiler.events()
            if event.device_type == on_gpu and not event.name.startswith(("Memcpy", "Memset"))
        )

    def canary(self, warm: int) -> dict[str, float]:
        torch = self._torch
        if self._canaries is None:
            source = torch.ones(CANARY_COPY_BYTES // 4, dtype=torch.float32, device="cuda")
            destination = torch.empty_like(source)
            self._canaries = {
                "spin": self._canary_graphs(lambda: torch.cuda._sleep(CANARY_CYCLES)),
                "copy": self._canary_graphs(lambda: destination.copy_(source)),
            }
            self._canary_memory = (source, destination)
        # An idle GPU, and one fresh from heavy work, runs slower clocks; light work brings both to the same ones.
        for _ in range(warm):
            torch.cuda._sleep(CANARY_CYCLES)
        return {name: self._canary_us(*graphs) for name, graphs in self._canaries.items()}

    def _canary_graphs(self, run: Run) -> tuple[TorchGraph, TorchGraph]:
        self.run(run)

        def several() -> None:
            for _ in range(CANARY_LAUNCHES):
                run()

        return self.capture(several), self.capture(run)

    def _canary_us(self, many: TorchGraph, one: TorchGraph) -> float:
        # The slope leaves out what a replay or the host's own pace adds.
        times = self.timed([many] * 4 + [one] * 4, flush=False)
        return (sorted(times[1:4])[1] - sorted(times[5:8])[1]) / (CANARY_LAUNCHES - 1)

    def warm_profiler(self) -> None:
        # Its first use loads and attaches the vendor's tracing library, which takes seconds.
        self.profile(self.empty)

    def begin(self, label: str) -> None:
        del label

    def free_bytes(self) -> int:
        torch = self._torch
        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())

    def trim(self) -> None:
        # Collecting and unmapping takes a good part of a second; it waits until there is something to gain.
        if self._torch.cuda.memory_reserved() > TRIM_SHARE * self.facts.total_bytes:
            gc.collect()
            self._torch.cuda.empty_cache()


def first_line(error: BaseException) -> str:
    """The first non-blank line of an error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
