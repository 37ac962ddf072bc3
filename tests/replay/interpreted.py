"""Runs Triton kernels in its own interpreter on CPU tensors; in a process of its own, as it reads the switch once."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gate.replay.op import Case
from tests.replay.elsewhere import answer


def findings(entrypoint_of: str, cases: Sequence[Case]) -> list[list[str]]:
    """The texts of what is wrong with each case's values; `entrypoint_of` is a module or package of kernels."""
    request = {"package": entrypoint_of, "cases": [asdict(case) for case in cases]}
    found: list[list[str]] = answer("tests.replay.interpreted", request, TRITON_INTERPRET="1")
    return found


def _multiply_bf16() -> None:
    """Triton 3.6's interpreter keeps bf16 as 16-bit integers and multiplies those; they are widened first here."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    plain = interpreter.InterpreterBuilder.create_dot

    def wide(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        bits = handle.data.astype(np.uint32) << 16
        return interpreter.TensorHandle(bits.view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return plain(self, wide(a), wide(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot


def _round_fp8() -> None:
    """Triton 3.6's interpreter cuts fp32 off where it becomes fp8; GPUs round to the nearest."""
    import torch
    import triton.language as tl
    from triton.runtime import interpreter

    plain = interpreter._convert_float

    def convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if (source, target) != (tl.float32, tl.float8e4nv):
            return plain(data, source, target, rounding)
        return torch.from_numpy(data.copy()).to(torch.float8_e4m3fn).view(torch.uint8).numpy()

    interpreter._convert_float = convert


def as_on_a_gpu() -> None:
    """Corrects the interpreter where it does not compute what a GPU does."""
    _multiply_bf16()
    _round_fp8()


def main() -> None:
    from tests.replay.on_cpu import judged

    as_on_a_gpu()
    request = json.loads(sys.stdin.read())
    cases = [Case(**case) for case in request["cases"]]
    found = [judged(f"{request['package']}:{case.op_type}", case) for case in cases]
    sys.stdout.write(json.dumps([[finding.text for finding in each] for each in found]) + "\n")


if __name__ == "__main__":
    main()
