"""Which frozen shapes the FlyDSL provider binds and compiles for gfx950, through the code path that a GPU would run.

python -m tests.bench.provider_compiles --flydsl-checkout DIR --python PY [--op OP ...] [--out FILE]

PY has torch (a CPU build will do) and FlyDSL. For the smallest shape of each compile key the op's tensors are made
without values, and `supports`, `prepare` and `launch` are called as the replay engine calls them, with FlyDSL told to
compile only and to stop at assembly. A key is compiled, refused (in the kernel's words) or failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LEDGERS = ROOT / "frozen_ledgers"


def rows(op: str) -> Iterator[dict[str, Any]]:
    """The shapes of a frozen ledger."""
    for line in (LEDGERS / op / "shape_ledger.jsonl").read_text("utf-8").splitlines():
        yield json.loads(line)


def grouped(op: str, checkout: bool) -> dict[str, dict[str, Any]]:
    """The smallest shape of each compile key; shapes without a key are grouped by the reason."""
    from gate.binding.families.kernel import Refusal
    from gate.binding.families.ledger import SHAPES

    found: dict[str, dict[str, Any]] = {}
    for row in rows(op):
        try:
            key = repr(SHAPES[op](row["dtype"], row["args"])) if op in SHAPES and checkout else row["dtype"]
        except Refusal as refusal:
            key = f"refused: {refusal}"
        size = sum(value for value in row["args"].values() if isinstance(value, int))
        held = found.setdefault(key, {**row, "size": size, "rows": 0})
        held["rows"] += 1
        if size < held["size"]:
            found[key] = {**row, "size": size, "rows": held["rows"]}
    return found


def serve(toolkit: str) -> int:
    """The worker: one case a line in, one answer a line out."""
    sys.path.insert(0, str(ROOT))
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from gate.binding.assembly import capture_assembly, texts_of
    from gate.replay.memory_torch import TorchMemory
    from gate.replay.op import Case, load_op
    from gate.replay.provider import load_entrypoint

    class Empty(TorchMemory):
        """Tensors whose values nobody reads; integers are drawn, for they are indices."""

        def normal(self, tensor: Any, seed: int, scale: float = 1.0) -> Any:
            return tensor

    import torch

    # Some kernels' files ask for it when they are imported; a torch for the CPU has none.
    torch.cuda.current_stream = lambda *_: None
    modules = capture_assembly(toolkit)
    for line in sys.stdin:
        row = json.loads(line)
        started = time.perf_counter()
        case = Case(shape_id="s", op_type=row["op_type"], dtype=row["dtype"], args=row["args"], layout=row["layout"])
        modules.clear()
        try:
            op = load_op(case.op_type)
            adapter = load_entrypoint(f"gate.replay.providers.flydsl:{case.op_type}", case.op_type)
            refusal = op.refusal(case) or adapter.supports(case)
            answer = {"state": "refused", "words": refusal}
            if refusal is None:
                memory: Any = Empty("cpu", "gfx950")
                tensors = {name: value[0] for name, value in op.inputs(case, memory, 1, 0).items()}
                for name, spec in op.outputs(case).items():
                    tensors[name] = memory.stack(1, spec.shape, spec.dtype)[0]
                adapter.launch(adapter.prepare(case, tensors))
                texts = texts_of(modules)
                instructions = sum(text.count("\n\t") for text in texts)
                state = "compiled" if texts and instructions else "failed"
                answer = {"state": state, "words": adapter.describe(case), "kernels": len(texts)}
        except Exception as error:  # noqa: BLE001  the answer says what
            kind = "refused" if type(error).__name__ in ("Unsupported", "Refusal", "NoKernel") else "failed"
            answer = {"state": kind, "words": " ".join(f"{type(error).__name__}: {error}".split())[:240]}
        channel.write(json.dumps({**answer, "seconds": round(time.perf_counter() - started, 2)}) + "\n")
        channel.flush()
    return 0


class Child:
    """A worker in the other interpreter; it is started again after it died."""

    def __init__(self, python: str, checkout: Path | None, toolkit: Path | None) -> None:
        self.python, self.checkout, self.toolkit = python, checkout, toolkit
        self.process: subprocess.Popen[str] | None = None

    def ask(self, row: dict[str, Any]) -> dict[str, Any]:
        """The worker's answer; a death is an answer too."""
        if self.process is None or self.process.poll() is not None:
            environment = {
                **os.environ,
                "COMPILE_ONLY": "1",
                "ARCH": "gfx950",
                "FLYDSL_GPU_ARCH": "gfx950",
                "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
                "FLYDSL_CHECKOUT": "" if self.checkout is None else str(self.checkout),
            }
            command = [self.python, str(Path(__file__).resolve()), "--serve", "--toolkit", str(self.toolkit or "")]
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(row) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return dict(json.loads(line))
        self.process.wait()
        return {"state": "failed", "words": f"the process died: exit {self.process.returncode}", "seconds": 0.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--toolkit", default="", help=argparse.SUPPRESS)
    parser.add_argument("--flydsl-checkout", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--op", action="append")
    parser.add_argument("--out", type=Path, help="every key's answer, as JSON lines")
    options = parser.parse_args()
    if options.serve:
        return serve(options.toolkit)
    sys.path.insert(0, str(ROOT))
    from gate.codegen import device_libs

    toolkit = device_libs.find(Path(tempfile.gettempdir()), pythons=(options.python,))
    child = Child(options.python, options.flydsl_checkout, toolkit)
    ops = options.op or sorted(path.parent.name for path in LEDGERS.glob("*/shape_ledger.jsonl"))
    answers = []
    print(f"{'op':28} {'shapes':>6} {'keys':>5} {'compiled':>9} {'refused':>8} {'failed':>7} {'seconds':>8}")
    for op in ops:
        counts: Counter[str] = Counter()
        seconds, shapes = 0.0, 0
        for key, row in grouped(op, options.flydsl_checkout is not None).items():
            answer = child.ask({name: row[name] for name in ("op_type", "dtype", "args", "layout")})
            counts[answer["state"]] += 1
            seconds += answer["seconds"]
            shapes += row["rows"]
            answers.append({"op": op, "key": key, "rows": row["rows"], "args": row["args"], **answer})
        numbers = " ".join(
            f"{counts[name]:>{width}}" for name, width in (("compiled", 9), ("refused", 8), ("failed", 7))
        )
        print(f"{op:28} {shapes:>6} {sum(counts.values()):>5} {numbers} {seconds:>8.1f}", flush=True)
    told: dict[tuple[str, str, str], list[Any]] = {}
    for answer in answers:
        if answer["state"] != "compiled":
            told.setdefault((answer["state"], answer["op"], answer["words"]), []).append(answer)
    for (state, op, words), alike in told.items():
        print(f"{state:8} {op}, shapes: {sum(one['rows'] for one in alike)}, e.g. {alike[0]['args']}")
        print(f"         {words}")
    if options.out is not None:
        options.out.write_text("".join(json.dumps(answer) + "\n" for answer in answers), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
