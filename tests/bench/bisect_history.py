"""Makes a git repository of a Triton rmsnorm with dependent work in it: 16 commits, one of them slower."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import msgspec

from tests.bisect.repository import git

COMMITS = 16
ARGS = {"M": 132, "N": 1024, "eps": 1e-5}
ENTRYPOINT = "history_kernel:rmsnorm"
# The chain of dependent steps runs on one value per row, so that it adds its latency and nothing else; a and b are 1
# and 0 at run time, which the compiler cannot know.
KERNEL = """import triton
import triton.language as tl


@triton.jit
def rms_rows(x, w, y, n, eps, a, b, CHAIN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    values = tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(values * values, axis=0) / n + eps)
    for _ in range(CHAIN):
        scale = scale * a + b
    weight = tl.load(w + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * n + columns, (values * scale * weight).to(y.dtype.element_ty), mask=inside)
"""
PROVIDER = """import torch

import history_kernel_rows
from gate.replay.provider import kernel

# {comment}
OPTIONS = dict(CHAIN={chain}, BLOCK=1024, num_warps=4)


def launch(x, w, y, eps):
    rows, n = x.shape
    history_kernel_rows.rms_rows[(rows,)](x, w, y, n, eps, 1.0, 0.0, **OPTIONS)


def compile_it(case):
    x = w = y = torch.bfloat16
    eps, grid = float(case.args["eps"]), (case.dim("M"),)
    history_kernel_rows.rms_rows.warmup(x, w, y, case.dim("N"), eps, 1.0, 0.0, grid=grid, **OPTIONS)


def elsewhere():
    return {unused}


@kernel(
    op="rmsnorm", provider="triton", dtypes=("bf16",), detail="history", compiler=compile_it, tunes_itself=False
)
def rmsnorm(case, tensors):
    x, w, y, eps = tensors["x"], tensors["weight"], tensors["out"], float(case.args["eps"])
    return lambda: launch(x, w, y, eps)
"""
SIMULATED = """from tests.replay.sim_kernels import honest_kernel

# {comment}
rmsnorm = honest_kernel("triton", {chain})


def elsewhere():
    return {unused}
"""


# What finding its row in memory and not in a cache adds to a call on an H200, microseconds.
COLD_US = 0.65


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One repository: its commits, which one is the first slow one (None for none), and what the others change."""

    folder: Path
    commits: tuple[str, ...]
    slow: int | None
    broken: int
    kinds: tuple[str, ...]


def make(folder: Path, *, seed: int, chains: tuple[float, float], regression: bool, simulated: bool) -> History:
    """The history of a seed: one commit slower (or none), one that does not import, the rest comments or other code."""
    rng = random.Random(seed)
    slow = rng.randrange(1, COMMITS) if regression else None
    broken = rng.choice([index for index in range(1, COMMITS - 1) if index != slow])
    kinds: list[str] = []
    hashes: list[str] = []
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    unused = 0
    for index in range(COMMITS):
        kind = "slow" if index == slow else "broken" if index == broken else rng.choice(("comment", "elsewhere"))
        unused = index if kind == "elsewhere" else unused
        chain = chains[1] if slow is not None and index >= slow else chains[0]
        template = SIMULATED if simulated else PROVIDER
        text = template.format(comment=f"change {index}", chain=chain, unused=unused)
        (folder / "history_kernel.py").write_text("import nothing_there\n" if kind == "broken" else text)
        (folder / "history_kernel_rows.py").write_text("" if simulated else KERNEL)
        git(folder, "add", "-A")
        git(folder, "commit", "--quiet", "--allow-empty", "-m", f"{index}: {kind}")
        hashes.append(git(folder, "rev-parse", "HEAD"))
        kinds.append(kind)
    return History(folder=folder, commits=tuple(hashes), slow=slow, broken=broken, kinds=tuple(kinds))


CALIBRATE = """import json, sys
sys.path.insert(0, sys.argv[1])
import torch
import history_kernel_rows as rows
x = torch.randn(132, 1024, device="cuda", dtype=torch.bfloat16)
w, y = torch.randn(1024, device="cuda", dtype=torch.bfloat16), torch.empty_like(x)
times = []
for chain in (500, 1500):
    def run():
        rows.rms_rows[(132,)](x, w, y, 1024, 1e-5, 1.0, 0.0, CHAIN=chain, BLOCK=1024, num_warps=4)
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(400):
            run()
    for _ in range(5):
        graph.replay()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(5):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    times.append(start.elapsed_time(end) * 1e3 / 2000)
print(json.dumps(times))
"""


def calibrated(folder: Path, *, python: str, target_us: float, effect: float) -> tuple[int, int]:
    """The lengths of the chain for a kernel of `target_us` and for one slower by `effect`, from two measured ones."""
    folder.mkdir(parents=True)
    (folder / "history_kernel_rows.py").write_text(KERNEL)
    command = [python, "-c", CALIBRATE, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    short, long = msgspec.json.decode(done.stdout.splitlines()[-1], type=list[float])
    step = (long - short) / 1000
    rest = short - 500 * step
    chain = round((target_us - rest) / step)
    return chain, chain + round(effect * (target_us + COLD_US) / step)
