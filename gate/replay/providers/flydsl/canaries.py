"""The gate's own kernels: what the candidate is where no checkout is given.

FlyDSL compiles for AMD GPUs only. The kernels' sources lie with the codegen half and are loaded by path; a launcher
compiles at its first call and fetches the current stream at each one.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate.replay.op import Case, Tensors
from gate.replay.provider import Bind, Launch
from gate.replay.providers.flydsl.streams import current_stream

KERNELS = Path(__file__).resolve().parents[3] / "codegen" / "canaries"
DTYPES = {"bf16": "bf16", "f16": "f16", "fp16": "f16", "f32": "f32", "fp32": "f32"}
FLOATS, HALVES = tuple(DTYPES), ("bf16", "f16", "fp16")
VECTOR_BYTES = 16
TILE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """One kernel of the gate's own: how it is bound, for what dtypes, and what it refuses."""

    bind: Bind
    dtypes: tuple[str, ...]
    detail: str
    when: Callable[[Case], str | None] | None = None

    def refusal(self, case: Case) -> str | None:
        """Why the kernel does not run the case, or None."""
        if case.dtype not in self.dtypes:
            return f"the kernel is written for {', '.join(self.dtypes)}, not {case.dtype}"
        return None if self.when is None else self.when(case)


@functools.cache
def _builder(name: str) -> Callable[..., Any]:
    """The `build` function of one kernel file."""
    if str(KERNELS) not in sys.path:
        # The files share helpers that they import by bare name.
        sys.path.insert(0, str(KERNELS))
    spec = importlib.util.spec_from_file_location(f"flydsl_kernel_{name}", KERNELS / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{KERNELS / name}.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Callable[..., Any] = module.build
    return build


@functools.cache
def _launcher(name: str, dtype: str, constants: tuple[tuple[str, Any], ...]) -> Any:
    launcher, _ = _builder(name)(dtype, **dict(constants))
    return launcher


def _bind(name: str, case: Case, constants: dict[str, Any], *arguments: Any) -> Launch:
    launcher = _launcher(name, DTYPES[case.dtype], tuple(sorted(constants.items())))

    def launch() -> None:
        launcher(*arguments, current_stream())

    return launch


def _width(count: int, case: Case) -> int:
    width = int(VECTOR_BYTES // case.element_bytes)
    return width if count % width == 0 else 1


def rmsnorm(case: Case, tensors: Tensors) -> Launch:
    """A workgroup per row."""
    constants = {"N": case.dim("N"), "eps": float(case.args.get("eps", 1e-5))}
    return _bind("rmsnorm", case, constants, tensors["x"], tensors["weight"], tensors["out"], case.dim("M"))


def softmax(case: Case, tensors: Tensors) -> Launch:
    """A workgroup per row."""
    return _bind("softmax", case, {"N": case.dim("N")}, tensors["x"], tensors["out"], case.dim("M"))


def vec_add(case: Case, tensors: Tensors) -> Launch:
    """A vector a lane."""
    count = case.dim("N") * int(case.args.get("M", 1))
    width = _width(count, case)
    return _bind("vec_add", case, {"width": width}, tensors["a"], tensors["b"], tensors["out"], count // width)


def _tiles(case: Case) -> str | None:
    for name in ("K", "N"):
        if case.dim(name) % TILE:
            return f"{name} = {case.dim(name)} is not a multiple of {TILE}"
    return None


def gemm(case: Case, tensors: Tensors) -> Launch:
    """MFMA tiles through LDS."""
    m, n, k = (case.dim(name) for name in ("M", "N", "K"))
    # A tile of 128 rows would be three quarters empty for a decode batch.
    tiles = {"K": k, "block_m": 32 if m <= 32 else 128, "block_n": 64 if n % 128 else 128, "block_k": TILE}
    return _bind("gemm", case, tiles, tensors["a"], tensors["b"], tensors["out"], m, n)


CANARIES: Mapping[str, Canary] = {
    "rmsnorm": Canary(bind=rmsnorm, dtypes=FLOATS, detail="the gate's own kernel: one workgroup per row"),
    "softmax": Canary(bind=softmax, dtypes=FLOATS, detail="the gate's own kernel: one workgroup per row"),
    "vec_add": Canary(bind=vec_add, dtypes=FLOATS, detail="the gate's own kernel: one vector a lane"),
    "gemm": Canary(bind=gemm, dtypes=HALVES, detail="the gate's own kernel: MFMA tiles through LDS", when=_tiles),
}
