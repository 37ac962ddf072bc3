"""The outputs of a ring: filled with a sentinel, and judged against the reference after a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from gate.replay import integrity
from gate.replay.device import Comparing, Comparison, Device
from gate.replay.integrity import Finding
from gate.replay.op import ELEMENT_BYTES, NARROW, Case, Op, Spec, Tensors

# Upcast reference and differences take several times this much memory.
CHUNK_BYTES = 256 * 1024 * 1024
NOTHING = Comparison(bad=0, nonfinite=0, total=0, max_abs=0.0)


@dataclass(slots=True, kw_only=True)
class Outputs:
    """`given` are the preallocated outputs, stacked; `results` what launches allocated themselves, by ring copy."""

    device: Device
    op: Op
    case: Case
    inputs: Tensors
    given: Tensors = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)

    @property
    def specs(self) -> Mapping[str, Spec]:
        """The op's outputs."""
        return self.op.outputs(self.case)

    def allocate(self, copies: int) -> None:
        """Makes the preallocated outputs, holding the sentinel."""
        self.given = {name: self.device.stack(copies, spec.shape, spec.dtype) for name, spec in self.specs.items()}
        self.results = [None] * copies
        self.poison()

    def poison(self) -> None:
        """Fills every output with the sentinel."""
        for name, tensor in self.given.items():
            self.device.fill(tensor, self.specs[name].dtype)
        for result in self.results:
            for tensor in (result or {}).values():
                # An output of a wrong dtype is reported by its form; it gets the sentinel of the dtype it has, if any.
                dtype = self.device.describe(tensor)[1]
                if dtype in ELEMENT_BYTES:
                    self.device.fill(tensor, dtype)

    def touched(self) -> dict[str, int]:
        """How many elements of each preallocated output no longer hold the sentinel."""
        names = list(self.specs)
        left = self.device.numbers([self.device.untouched(self.given[name], self.specs[name].dtype) for name in names])
        return {
            name: len(self.results) * element_count(self.specs[name].shape) - int(count)
            for name, count in zip(names, left, strict=True)
        }

    def digest(self) -> list[int] | None:
        """What a replay wrote, by its bytes: each output of the whole ring, and the inputs that the op writes. None
        where an output has another form than the op's."""
        ring = range(len(self.results))
        if any(self._form(index) is not None for index in ring):
            return None
        written = (self._stacked(name, part) for name in self.specs for part in self._chunks(ring))
        return list(self.device.digest(chain(written, (self.inputs[name] for name in self.op.mutates))))

    def judge(self, copies: range) -> tuple[list[Finding], float]:
        """Check 2 on the given ring copies: form, unwritten elements, then values; and the largest error seen."""
        form = next(filter(None, map(self._form, copies)), None)
        if form is not None:
            return [form], 0.0
        # Unwritten elements are counted before any reference runs: a reference that wrote outputs would hide them.
        findings = self._unwritten(copies)
        if findings:
            return findings, 0.0
        coming: list[tuple[str, Comparing]] = []
        for part in self._chunks(copies):
            inputs = {name: value[part.start : part.stop] for name, value in self.inputs.items()}
            expected = self.op.reference(self.case, inputs)
            outputs = {name: self._stacked(name, part) for name in self.specs}
            observed = self.op.observed(self.case, inputs, outputs)
            for name, reference in expected.items():
                found = self.device.compare(observed[name], reference, self.op.tolerance(self.case, name))
                coming.append((name, found))
        totals = self._totals(coming)
        wrong = (
            integrity.wrong_output(name, total, self.op.tolerance(self.case, name)) for name, total in totals.items()
        )
        return list(filter(None, wrong)), max((total.max_abs for total in totals.values()), default=0.0)

    def _totals(self, coming: Sequence[tuple[str, Comparing]]) -> dict[str, Comparison]:
        """The comparisons by output, all parts of a ring together."""
        found = self.device.numbers([value for _, one in coming for value in (one.bad, one.nonfinite, one.max_abs)])
        totals: dict[str, Comparison] = {}
        for place, (name, one) in enumerate(coming):
            bad, nonfinite, largest = found[3 * place : 3 * place + 3]
            before = totals.get(name, NOTHING)
            totals[name] = Comparison(
                bad=before.bad + int(bad),
                nonfinite=before.nonfinite + int(nonfinite),
                total=before.total + one.total,
                max_abs=max(before.max_abs, largest),
            )
        return totals

    def _chunks(self, copies: range) -> Iterator[range]:
        one = sum(self.device.nbytes(tensor[0]) for tensor in {**self.inputs, **self.given}.values())
        step = max(CHUNK_BYTES // max(one, 1), 1)
        for start in range(copies.start, copies.stop, step):
            yield range(start, min(start + step, copies.stop))

    def _stacked(self, name: str, part: range) -> Any:
        """One output of these copies, whoever allocated it."""
        own = [self._own(name, index) for index in part]
        if all(tensor is None for tensor in own):
            return self.given[name][part.start : part.stop]
        rows = [self.given[name][index] if tensor is None else tensor for index, tensor in zip(part, own, strict=True)]
        return self.device.join(rows)

    def _own(self, name: str, index: int) -> Any:
        result = self.results[index]
        return None if result is None else result.get(name)

    def _form(self, index: int) -> Finding | None:
        for name, spec in self.specs.items():
            own = self._own(name, index)
            if own is None:
                continue
            got, want = self.device.describe(own), self.device.describe(self.given[name][index])
            finding = integrity.wrong_form(name, got=got, want=(tuple(spec.shape), want[1]))
            if finding is not None:
                return finding
        return None

    def _unwritten(self, copies: range) -> list[Finding]:
        specs = {name: spec for name, spec in self.specs.items() if not (spec.partial or spec.dtype in NARROW)}
        coming = [
            (name, self.device.untouched(self._stacked(name, part), spec.dtype))
            for name, spec in specs.items()
            for part in self._chunks(copies)
        ]
        left: Counter[str] = Counter()
        for (name, _), count in zip(coming, self.device.numbers([value for _, value in coming]), strict=True):
            left[name] += int(count)
        counts = (
            integrity.unwritten(name, untouched=left[name], total=element_count(spec.shape) * len(copies))
            for name, spec in specs.items()
        )
        return list(filter(None, counts))


def element_count(shape: Sequence[int]) -> int:
    """Elements of a tensor of that shape."""
    total = 1
    for size in shape:
        total *= size
    return total
