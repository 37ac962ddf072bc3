"""Knows how one workgroup walks and reduces one row: vector loads, a masked tail, one value per wave through LDS."""

# mypy: ignore-errors
# Kernel bodies are traced by FlyDSL into MLIR; its values carry no static types.

import flydsl.expr as fx

THREADS = 256
WAVE = 64
WAVES = THREADS // WAVE
ELEMENT = {"bf16": fx.BFloat16, "f16": fx.Float16, "f32": fx.Float32}
BITS = {"bf16": 16, "f16": 16, "f32": 32}
LOG2E = 1.4426950408889634


def vector_width(n, dtype):
    """Elements one lane moves at a time: 128 bits where every row starts on 16 bytes, else one element."""
    width = 128 // BITS[dtype]
    return width if n % width == 0 else 1


def copy_atom(width, dtype):
    bits = BITS[dtype]
    ops = {16: fx.rocdl.BufferCopy16b, 32: fx.rocdl.BufferCopy32b, 128: fx.rocdl.BufferCopy128b}
    return fx.make_copy_atom(ops[width * bits](), bits)


def vectors_of_row(tensor, row, width):
    """One row of a [M, N] tensor, cut in vectors; index it with `(None, i)`."""
    return fx.logical_divide(fx.slice(fx.rocdl.make_buffer_tensor(tensor), (row, None)), fx.make_layout(width, 1))


def vectors(tensor, width):
    """A [N] tensor, cut in vectors."""
    return fx.logical_divide(fx.rocdl.make_buffer_tensor(tensor), fx.make_layout(width, 1))


def load(atom, divided, index, width, dtype):
    registers = fx.make_rmem_tensor(width, ELEMENT[dtype])
    fx.copy(atom, fx.slice(divided, (None, index)), registers)
    return fx.memref_load_vec(registers)


def store(atom, divided, index, value, width, dtype):
    registers = fx.make_rmem_tensor(width, ELEMENT[dtype])
    fx.memref_store_vec(value, registers)
    fx.copy(atom, registers, fx.slice(divided, (None, index)))


def wide(vector, dtype):
    return vector if dtype == "f32" else vector.to(fx.Float32)


def narrow(vector, dtype):
    return vector if dtype == "f32" else vector.to(ELEMENT[dtype])


def wave_reduce(value, combine):
    """Butterfly over the 64 lanes; every lane ends with the result."""
    distance = WAVE // 2
    while distance:
        value = combine(value, value.shuffle_xor(distance, WAVE))
        distance //= 2
    return value


def block_reduce(value, combine, slots, tid):
    """Reduce over the workgroup; every thread ends with the result.

    All lanes of a wave write the same value to the wave's own slot, so no lane needs to be singled out, and one
    barrier is enough. `slots` must not be reused for a second reduction without another barrier.
    """
    fx.memref_store(wave_reduce(value, combine), slots, tid // WAVE)
    fx.gpu.barrier()
    total = fx.memref_load(slots, 0)
    for wave in range(1, WAVES):
        total = combine(total, fx.memref_load(slots, wave))
    return total
