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
    first, scalar, empty, same = memory.digest([odd, torch.zeros(()), torch.zeros(0), odd.clone()])
    assert first == same != 0 and scalar == empty == 0


@pytest.mark.parametrize("part", [1 << 20, 10_000])
def test_a_digest_tells_the_same_numbers_in_another_order(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(memory_torch, "PART_ELEMENTS", part)
    memory = TorchMemory("cpu")
    tensor = memory.normal(torch.empty(6, 5, 1003), seed=3)
    swapped = [tensor.clone() for _ in range(4)]
    swapped[0][2, [0, 1]] = tensor[2, [1, 0]]
    swapped[1][[0, 5]] = tensor[[5, 0]]
    swapped[2][0, 0, [7, 8]] = tensor[0, 0, [8, 7]]
    swapped[3] = tensor.flip(0)
    found = memory.digest([tensor, *swapped, tensor.clone()])
    assert len(set(found)) == 5 and found[0] == found[-1]
    assert memory.digest([tensor]) == TorchMemory("cpu").digest([tensor])


def test_a_digest_tells_a_transposed_tile() -> None:
    memory = TorchMemory("cpu")
    square = memory.normal(torch.empty(4096, 4096), seed=4)
    tile = square.clone()
    tile[64:128, 64:128] = square[64:128, 64:128].T
    one = square.clone()
    one[7, 11], one[11, 7] = square[11, 7], square[7, 11]
    assert len(set(memory.digest([square, square.T.contiguous(), tile, one]))) == 4


def test_scratch_is_zero() -> None:
    piece = TorchMemory("cpu").scratch(12, torch.int32)
    assert piece.dtype == torch.int32 and piece.tolist() == [0] * 12
