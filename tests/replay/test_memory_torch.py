"""Tensors of torch in pieces: counted and summed whatever the piece, the dtype and the shape."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="computes with torch")

from gate.replay import memory_torch  # noqa: E402
from gate.replay.memory_torch import TorchMemory  # noqa: E402


@pytest.mark.parametrize("part", [7, 100, 1 << 26])
@pytest.mark.parametrize("dtype", ["bf16", "fp32", "int8", "fp8", "int64"])
def test_what_a_kernel_left_untouched_is_counted_piece_by_piece(
    monkeypatch: pytest.MonkeyPatch, part: int, dtype: str
) -> None:
    monkeypatch.setattr(memory_torch, "PART_ELEMENTS", part)
    memory = TorchMemory("cpu")
    tensor = memory.stack(5, (3, 7), dtype)
    memory.fill(tensor, dtype)
    assert memory.untouched(tensor, dtype) == 5 * 3 * 7
    before = memory.digest([tensor])
    tensor[3, 1, 2] = 1
    assert memory.untouched(tensor, dtype) == 5 * 3 * 7 - 1
    assert memory.untouched(tensor[3], dtype) == 3 * 7 - 1
    assert memory.digest([tensor]) != before


def test_digests_take_any_shape() -> None:
    memory = TorchMemory("cpu")
    odd = torch.arange(10, dtype=torch.int8)
    assert memory.digest([odd, torch.zeros(()), torch.zeros(0), odd.clone()]) == (45, 0, 0, 45)


def test_scratch_is_zero() -> None:
    piece = TorchMemory("cpu").scratch(12, torch.int32)
    assert piece.dtype == torch.int32 and piece.tolist() == [0] * 12
