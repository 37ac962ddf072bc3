"""Knows C[M,N] = A[M,K] @ B[N,K]^T as one tile per workgroup: MFMA, both operands through LDS, a real loop over K."""

# mypy: ignore-errors
# Kernel bodies are traced by FlyDSL into MLIR; its values carry no static types.

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import range_constexpr

THREADS = 256
VECTOR = 8
ELEMENT = {"bf16": fx.BFloat16, "f16": fx.Float16}


def build(dtype, *, K, block_m, block_n, block_k):
    """Return the launcher of `(A[M,K], B[N,K], C[M,N], M, N, stream)` and the arguments that compile it.

    N is a multiple of block_n and K of block_k; M is free: the buffer descriptors hold the exact sizes, so loads of
    rows past M give zeros and stores to them are dropped.
    """
    element = ELEMENT[dtype]
    # Four waves: side by side along N when the tile is low, two by two otherwise.
    wave_grid = (1, 4, 1) if block_m < 64 else (2, 2, 1)
    columns = block_k // VECTOR
    lines = THREADS // columns

    @fx.struct
    class Shared:
        a: fx.Array[element, block_m * block_k, 16]
        b: fx.Array[element, block_n * block_k, 16]

    @flyc.kernel
    def gemm_tile(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma, stage: fx.TiledCopy):
        tid = fx.thread_idx.x
        tile_m, tile_n = fx.block_idx.x, fx.block_idx.y
        A = fx.rocdl.make_buffer_tensor(A, max_size=False)
        B = fx.rocdl.make_buffer_tensor(B, max_size=False)
        C = fx.rocdl.make_buffer_tensor(C, max_size=False)
        a_tiles = fx.flat_divide(A, (block_m, block_k))[None, None, tile_m, None]
        b_tiles = fx.flat_divide(B, (block_n, block_k))[None, None, tile_n, None]
        c_tile = fx.flat_divide(C, (block_m, block_n))[None, None, tile_m, tile_n]

        # XOR-ing groups of 8 elements with the line number keeps the 16-byte reads of a wave off the same banks.
        swizzle = fx.static(fx.SwizzleType.get(3, 3, 3))
        shared = fx.SharedAllocator().allocate(Shared).peek()
        a_shared = shared.a.view(fx.make_composed_layout(swizzle, fx.make_ordered_layout((block_m, block_k), (1, 0))))
        b_shared = shared.b.view(fx.make_composed_layout(swizzle, fx.make_ordered_layout((block_n, block_k), (1, 0))))

        from_global = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), element)
        to_shared = fx.make_copy_atom(fx.UniversalCopy128b(), element)
        to_global = fx.make_copy_atom(fx.rocdl.BufferCopy16b(), element)
        mine = mma.thr_slice(tid)
        staging = stage.get_slice(tid)
        read_a = fx.make_tiled_copy_A(to_shared, mma).get_slice(tid)
        read_b = fx.make_tiled_copy_B(to_shared, mma).get_slice(tid)
        write_c = fx.make_tiled_copy_C(to_global, mma).get_slice(tid)

        a_source, a_store = staging.partition_S(a_tiles), staging.partition_D(a_shared)
        b_source, b_store = staging.partition_S(b_tiles), staging.partition_D(b_shared)
        a_held, b_held = fx.make_fragment_like(a_store), fx.make_fragment_like(b_store)
        a_frag, b_frag = mine.make_fragment_A(a_shared), mine.make_fragment_B(b_shared)
        c_frag = mine.make_fragment_C(c_tile)
        a_read, b_read = read_a.partition_S(a_shared), read_b.partition_S(b_shared)
        a_into, b_into = read_a.retile(a_frag), read_b.retile(b_frag)

        def fetch(k):
            fx.copy(from_global, a_source[None, None, None, k], a_held)
            fx.copy(from_global, b_source[None, None, None, k], b_held)

        def stash():
            fx.copy(to_shared, a_held, a_store)
            fx.copy(to_shared, b_held, b_store)
            fx.gpu.barrier()

        def accumulate():
            for step in range_constexpr(block_k // 32):
                fx.copy(to_shared, a_read[None, None, step], a_into[None, None, step])
                fx.copy(to_shared, b_read[None, None, step], b_into[None, None, step])
                fx.gemm(mma, c_frag, a_frag[None, None, (None, step)], b_frag[None, None, (None, step)], c_frag)
            fx.gpu.barrier()

        c_frag.fill(0)
        fetch(0)
        for k in range(1, K // block_k):
            stash()
            fetch(fx.Int32(k))
            accumulate()
        stash()
        accumulate()

        c_narrow = fx.make_fragment_like(c_frag, element)
        c_narrow.store(c_frag.load().to(element))
        fx.copy(to_global, write_c.retile(c_narrow), write_c.partition_S(c_tile))

    @flyc.jit
    def launch(
        A: fx.Tensor,
        B: fx.Tensor,
        C: fx.Tensor,
        M: fx.Int32,
        N: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008
    ):
        mma = fx.make_tiled_mma(
            fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, element)),
            fx.make_layout(wave_grid, (wave_grid[1], 1, 0)),
            # Two MFMA steps of 16 make 32 along K; this order gives each lane 8 neighbours, one 16-byte read.
            fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4))),
        )
        stage = fx.make_tiled_copy(
            fx.make_copy_atom(fx.UniversalCopy128b(), element),
            fx.make_layout(((columns, lines), (1, VECTOR)), ((lines * VECTOR, 1), (1, lines))),
            fx.make_tile(lines, block_k),
        )
        gemm_tile(A, B, C, mma, stage).launch(
            grid=((M + block_m - 1) // block_m, N // block_n, 1), block=(THREADS, 1, 1), stream=stream
        )

    a, b, c = ("tensor", dtype, (block_m, K)), ("tensor", dtype, (block_n, K)), ("tensor", dtype, (block_m, block_n))
    return launch, (a, b, c, ("int32", block_m), ("int32", block_n), ("stream",))
