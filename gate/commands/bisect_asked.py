"""What answers a bisection's questions: code from the sources, times from the GPU, which is taken when first needed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from gate.bisect.ask import Answer, Ask, AskCode, Code, Skipped
from gate.commands import bisect_code, bisect_pairs, bisect_versions
from gate.commands.bisect_spares import Spares
from gate.commands.bisect_versions import Source, Unbuildable
from gate.commands.replay import choose_gpus
from gate.commands.telling import say
from gate.model.shape import Shape
from gate.replay.job import Settings
from gate.replay.machine import lock_gpu
from gate.replay.token import Token

SPARES = 4


class Gpu:
    """The GPU of one command: its lock, its token, workers started ahead, and the seconds that pairs took."""

    def __init__(self, options: dict[str, Any], *, spares: int = SPARES) -> None:
        self.options, self.size = options, spares
        self.token = Token()
        self.lock: int | None = None
        self.spares: Spares | None = None
        self.name: str | None = None
        self.spent_s: Counter[str] = Counter()

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spares is not None:
            self.spares.close()
        if self.lock is not None:
            os.close(self.lock)

    def bench(self, settings: Settings, source: Source) -> bisect_pairs.Bench:
        """Where pairs are measured; the GPU is taken when the first one is. Raises UnusableInput."""
        if self.spares is None:
            self.name = choose_gpus(self.options)[0]
            if self.options["simulate"] is None:
                self.lock = lock_gpu(self.name)
            _, arm = source.make(0)
            self.spares = Spares(settings, arm=arm, gpu=self.name, token=self.token, size=self.size)
        return bisect_pairs.Bench(settings=settings, gpu=self.name, token=self.token, spares=self.spares)


class Asked:
    """What answers the search: code from the sources, times from the GPU."""

    def __init__(
        self, options: dict[str, Any], *, header: dict[str, Any], shape: Shape, kernel: bisect_pairs.Kernel,
        source: Source, gpu: Gpu,
    ) -> None:  # fmt: skip
        self.options, self.shape, self.kernel, self.source, self.gpu = options, shape, kernel, source, gpu
        self.settings = Settings(
            session_id=header["session_id"],
            seed=header["seed"],
            secret=header["secret"],
            arms={},
            folder=options["out"],
            device="gpu" if options["simulate"] is None else f"sim:{options['simulate']}",
            looks=(options["blocks"],),
            budget_us=options["budget_us"],
            lanes=1,
        )
        self.bench: bisect_pairs.Bench | None = None

    def close(self) -> None:
        """Ends the workers."""
        if self.bench is not None:
            self.gpu.spent_s.update(self.bench.spent_s)
            self.bench.close()

    def answer(self, ask: Ask) -> Answer:
        """Builds, compiles or measures what is asked. Raises UnusableInput."""
        if isinstance(ask, AskCode):
            return self._code(ask.version)
        head, base = (self.source.versions[index].short for index in (ask.head, ask.base))
        say(f"{ask.purpose}: {head} against {base}, process pair {ask.process + 1}", err=True)
        if self.bench is None:
            self.bench = self.gpu.bench(self.settings, self.source)
        return bisect_pairs.answer(ask, bench=self.bench, kernel=self.kernel, source=self.source)

    def _code(self, index: int) -> Answer:
        say(f"code of {self.source.versions[index].short}", err=True)
        try:
            tree, arm = self.source.make(index)
        except Unbuildable as error:
            return Skipped(version=index, reason=str(error))
        signature, words = self._signature(tree, arm.python)
        return Code(signature=signature, words=words)

    def _signature(self, tree: Path, python: str) -> tuple[str, str]:
        how = self.options["code"]
        if how == "none":
            return "", "not compared"
        limits = {"arch": "gfx950", "jobs": 1, "timeout": 300.0, "installed_torch": False}
        if self.source.kind == "wheels":
            own = next(iter(sorted(tree.glob("bin/python"))), Path(python))
            return bisect_code.of_machine(self.shape, checkout=None, python=str(own), limits=limits)
        built = self.options["setup"] or self.options["arm"]
        # The interpreter's flydsl compiles here; a tree that brings its own compiler would be judged by another one.
        if how == "machine" or (how == "auto" and not built and bisect_code.has_machine_code(tree)):
            found = bisect_code.of_machine(self.shape, checkout=tree, python=python, limits=limits)
            if found[0] or how == "machine":
                return found
        within = ("",) if built else self.options["entries"] or ("",)
        return bisect_code.of_sources(tree, bisect_versions.tracked(tree), within)
