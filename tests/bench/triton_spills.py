"""What registers that spill do to a time: one product of experts with several tiles, in several processes one by one.

    python -m tests.bench.triton_spills [--processes 6] [--shape sha1:b6668db596da5417]      (needs a GPU)

Local memory, which registers spill to, is each process's own. Code, inputs and order are the same in all processes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

from gate import store
from gate.model.shape import Shape
from gate.model.text import counted
from gate.resources import frozen_ledgers_dir
from tests.bench.replay_rig import ROOT

# (BM, BN, warps, stages), BK is 128; the first spills.
TILES = ((128, 128, 8, 3), (128, 64, 8, 4), (64, 128, 8, 3), (64, 64, 4, 4))
WARM, CALLS = 5, 40


def frozen(shape_id: str) -> Shape:
    for path in sorted(frozen_ledgers_dir().glob(f"moe_*/{store.LEDGER_FILE}")):
        for shape in store.read_ledger(path).shapes:
            if shape.shape_id == shape_id:
                return shape
    raise SystemExit(f"{shape_id} is in no ledger of a mixture of experts")


def measured(shape: Shape) -> list[tuple[int, float]]:
    """For each tile: bytes of local memory a thread of its hungriest launch, and the median us of a call."""
    import torch

    from gate.replay.memory_torch import TorchMemory
    from gate.replay.op import Case, load_op
    from gate.replay.providers.triton import gemm, moe_gemm
    from gate.replay.providers.triton.calls import Launches

    case = Case(shape_id=shape.shape_id, op_type=shape.op_type, dtype=shape.dtype, args=dict(shape.args), layout={})
    op, memory = load_op(case.op_type), TorchMemory("cuda", "sm_90")
    tensors = {name: ring[0] for name, ring in op.inputs(case, memory, 1, 1).items()}
    tensors |= {name: memory.stack(1, spec.shape, spec.dtype)[0] for name, spec in op.outputs(case).items()}
    forms = moe_gemm.blockscale_op.FORMS if case.op_type == "moe_blockscale" else moe_gemm.moe_op.FORMS
    a, b = gemm.kernel_forms(*forms[case.dtype])
    found = []
    for bm, bn, warps, stages in TILES:
        config = {"BM": bm, "BN": bn, "BK": 128, "GROUP": 8, "num_warps": warps, "num_stages": stages, "NATIVE": False}
        calls = moe_gemm.Layer(case, tensors, a, b, config).calls()
        kernels = [call.function[call.grid](*call.arguments, **call.options) for call in calls]
        launch = Launches(calls)
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(CALLS)]
        for _ in range(WARM):
            launch()
        for start, end in events:
            start.record()
            launch()
            end.record()
        torch.cuda.synchronize()
        us = statistics.median(start.elapsed_time(end) * 1e3 for start, end in events)
        found.append((4 * max(int(kernel.n_spills) for kernel in kernels), us))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--shape", default="sha1:b6668db596da5417")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = frozen(options.shape)
    if options.one:
        print(json.dumps(measured(shape)))
        return
    print(f"{shape.op_type} {shape.args}, us in {counted(options.processes, 'process', 'processes')}", flush=True)
    command = [sys.executable, "-m", "tests.bench.triton_spills", "--one", "--shape", options.shape]
    sessions = [
        json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)
        for _ in range(options.processes)
    ]
    print(f"{'BM x BN, warps':>16} {'local bytes':>12} {'apart':>7}  us")
    for place, (bm, bn, warps, _) in enumerate(TILES):
        times = [session[place][1] for session in sessions]
        apart = max(times) / min(times) - 1
        told = " ".join(f"{us:.0f}" for us in times)
        print(f"{f'{bm} x {bn}, {warps}':>16} {sessions[0][place][0]:>12} {apart:>7.2%}  {told}")


if __name__ == "__main__":
    main()
