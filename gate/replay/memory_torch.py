"""Tensors of torch as the engine uses them, on a GPU or on the CPU: made, filled, compared and counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gate.replay.chips import MIB
from gate.replay.device import Coming, Comparing
from gate.replay.op import Tolerance

ALIGN_BYTES = 256
SPREAD_BYTES = 256 * MIB
FEW_COPIES = 64
PART_ELEMENTS = 64 * MIB
# How many words a digest weighs by one row of weights, and its odd factors, as signed 64-bit numbers.
ROW_WORDS = 4096
CHAIN = 6364136223846793005
MIXERS = (-7046029254386353131, -4658895280553007687, -7723592293110705685)
TORCH_NAMES = {
    "fp32": "float32",
    "f32": "float32",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
    "uint8": "uint8",
    "int32": "int32",
    "int64": "int64",
}
# CDNA 3 takes another e4m3 than OCP's: one bias more, no negative zero.
FNUZ_ARCHS = ("gfx940", "gfx941", "gfx942")
FNUZ = "float8_e4m3fnuz"
# Exactly representable in its dtype, finite, and far from what a kernel computes from N(0, 1) inputs.
SENTINELS = {
    "float32": -30464.0,
    "bfloat16": -30464.0,
    "float16": -30464.0,
    "int8": -117,
    "uint8": 171,
    "int32": -1234567,
    "int64": -1234567,
}
# The bits of a finite e4m3 value, -72 or -36 by the flavour.
FP8_SENTINEL_BITS = 0xE9


class TorchMemory:
    """See the module. `place` is a torch device; `arch` decides the flavour of fp8."""

    def __init__(self, place: str, arch: str = "") -> None:
        import torch

        self._torch, self._place = torch, place
        self._row_weights: Any = None
        self._names = {**TORCH_NAMES, "fp8": FNUZ if arch in FNUZ_ARCHS else TORCH_NAMES["fp8"]}

    def _dtype(self, name: str) -> Any:
        return getattr(self._torch, self._names[name])

    def stack(self, copies: int, shape: Sequence[int], dtype: str) -> Any:
        kind = self._dtype(dtype)
        step = -(-math.prod(shape) * kind.itemsize // ALIGN_BYTES) * ALIGN_BYTES // kind.itemsize
        # Where a copy lies moves its time; small copies are spread out so that they do not all lie in a few pages.
        spread = SPREAD_BYTES // (copies * ALIGN_BYTES) if copies > FEW_COPIES else 0
        units = max(-(-step * kind.itemsize // ALIGN_BYTES), spread)
        # An even stride would send every copy's first line to the same few memory channels.
        step = (units | 1 if copies > FEW_COPIES else units) * ALIGN_BYTES // kind.itemsize
        flat = self._flat(copies * step, kind)
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return flat.as_strided((copies, *shape), (step, *strides))

    def scratch(self, elements: int, kind: Any) -> Any:
        return self._flat(elements, kind).zero_()

    def _flat(self, count: int, kind: Any) -> Any:
        return self._torch.empty(count, dtype=kind, device=self._place)

    def normal(self, tensor: Any, seed: int, scale: float = 1.0) -> Any:
        generator = self._generator(seed)
        if tensor.is_floating_point() and tensor.dtype.itemsize > 1:
            return tensor.normal_(0.0, scale, generator=generator)
        for copy in tensor:
            # Drawn wide and rounded: no generator draws narrow floats or integers from a normal distribution.
            wide = self._torch.empty(copy.shape, dtype=self._torch.float32, device=self._place)
            wide.normal_(0.0, scale, generator=generator)
            low, high = self._range(tensor.dtype)
            copy.copy_((wide if tensor.is_floating_point() else wide.round_()).clamp_(low, high))
        return tensor

    def integers(self, tensor: Any, seed: int, low: int, high: int) -> Any:
        return tensor.random_(low, high, generator=self._generator(seed))

    def _generator(self, seed: int) -> Any:
        return self._torch.Generator(device=self._place).manual_seed(seed % (1 << 63))

    def _range(self, dtype: Any) -> tuple[float, float]:
        limits = self._torch.finfo(dtype) if dtype.is_floating_point else self._torch.iinfo(dtype)
        return limits.min, limits.max

    def fill(self, tensor: Any, dtype: str) -> None:
        if dtype == "fp8":
            tensor.view(self._torch.uint8).fill_(FP8_SENTINEL_BITS)
        else:
            tensor.fill_(SENTINELS[TORCH_NAMES[dtype]])

    def untouched(self, tensor: Any, dtype: str) -> Coming:
        sentinel: float = FP8_SENTINEL_BITS if dtype == "fp8" else SENTINELS[TORCH_NAMES[dtype]]
        tensor = tensor.view(self._torch.uint8) if dtype == "fp8" else tensor
        return self._total((part == sentinel).sum() for part in self._parts(tensor))

    def _parts(self, tensor: Any) -> Iterator[Any]:
        """The tensor's elements in flat pieces: torch widens what it sums to eight bytes an element beforehand, which
        for a whole ring takes more memory than the ring."""
        copies = tensor.shape[0] if tensor.dim() > 1 else 1
        each = max(tensor.numel() // max(copies, 1), 1)
        step = max(PART_ELEMENTS // each, 1)
        for start in range(0, copies, step):
            piece = tensor[start : start + step] if copies > 1 else tensor
            yield from piece.reshape(-1).split(PART_ELEMENTS)

    def _total(self, sums: Iterator[Any]) -> Any:
        total = self._torch.zeros((), dtype=self._torch.int64, device=self._place)
        for value in sums:
            total += value
        return total

    def numbers(self, coming: Sequence[Coming]) -> list[float]:
        found: list[float] = self._torch.stack([value.double() for value in coming]).tolist() if coming else []
        return found

    def compare(self, out: Any, reference: Any, tolerance: Tolerance) -> Comparing:
        value = out.float()
        error = (value - reference).abs()
        bad = (~(error <= reference.abs().mul_(tolerance.rtol).add_(tolerance.atol))).sum()
        nonfinite = (~value.isfinite()).sum()
        largest = error.nan_to_num_(nan=0.0, posinf=0.0).max()
        return Comparing(bad=bad, nonfinite=nonfinite, total=out.numel(), max_abs=largest)

    def digest(self, tensors: Iterable[Any]) -> tuple[int, ...]:
        totals = [self._chained(self._weighed(part) for part in self._parts(tensor)) for tensor in tensors]
        return tuple(self._torch.stack(totals).tolist()) if totals else ()

    def _chained(self, sums: Iterator[Any]) -> Any:
        """The numbers of a tensor's pieces as one that depends on their order."""
        total = self._torch.zeros((), dtype=self._torch.int64, device=self._place)
        for value in sums:
            total = total * CHAIN + value
        return total

    def _weighed(self, part: Any) -> Any:
        """The bytes of a flat piece, four at a time where they come out even, each weighed by its place."""
        # One element a copy lies one stride apart.
        flat = part.contiguous().view(self._torch.uint8)
        words = flat.view(self._torch.int32) if flat.numel() % 4 == 0 else flat
        whole = words.numel() // ROW_WORDS * ROW_WORDS
        weights = self._row_weights = self._weights(ROW_WORDS) if self._row_weights is None else self._row_weights
        rows = (words[:whole].view(-1, ROW_WORDS) * weights).sum(1)
        rest = words[whole:] * weights[: words.numel() - whole]
        # Rows are weighed by other numbers than the words in them: else a transposed tile would go unseen.
        return (rows * self._weights(rows.numel(), first=ROW_WORDS)).sum() * CHAIN + rest.sum()

    def _weights(self, count: int, first: int = 0) -> Any:
        """Odd 64-bit numbers without a pattern, the same in every process (the mixing of splitmix64)."""
        places = self._torch.arange(first + 1, first + count + 1, dtype=self._torch.int64, device=self._place)
        mixed = places * MIXERS[0]
        for mixer in MIXERS[1:]:
            mixed = (mixed ^ (mixed >> 29)) * mixer
        return mixed | 1

    def describe(self, tensor: Any) -> tuple[tuple[int, ...], str]:
        torch_name = str(tensor.dtype).removeprefix("torch.")
        short_names = {full: short for short, full in reversed(self._names.items())}
        return tuple(tensor.shape), short_names.get(torch_name, torch_name)

    def nbytes(self, tensor: Any) -> int:
        return int(tensor.numel() * tensor.element_size())

    def copy(self, destination: Any, source: Any) -> None:
        destination.copy_(source)

    def join(self, tensors: Sequence[Any]) -> Any:
        return self._torch.stack(tuple(tensors))
