"""Outputs of the package's Triton kernels without and with the dial, in Triton's interpreter; in a process of its own.

python -m tests.replay.dialled_values < [case, ...]      (with TRITON_INTERPRET=1)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gate.replay.memory_torch import TorchMemory
from gate.replay.op import Case, load_op
from gate.replay.provider import ProviderAdapter, load_entrypoint
from tests.replay.elsewhere import answer
from tests.replay.interpreted import as_on_a_gpu

ROUNDS = 5


def differing(cases: Sequence[Case]) -> list[list[str]]:
    """For each case the outputs that differ in any bit from the plain kernel's, as `name with N rounds`."""
    found: list[list[str]] = answer(
        "tests.replay.dialled_values", [asdict(case) for case in cases], TRITON_INTERPRET="1"
    )
    return found


def values(adapter: ProviderAdapter, case: Case) -> dict[str, Any]:
    """What one call writes, into outputs that were zero."""
    op = load_op(case.op_type)
    memory: Any = TorchMemory("cpu")
    given: dict[str, Any] = {}
    for name, spec in op.outputs(case).items():
        given[name] = memory.stack(1, spec.shape, spec.dtype)[0].zero_()
    tensors = {name: value[0] for name, value in op.inputs(case, memory, 1, 5).items()}
    adapter.launch(adapter.prepare(case, {**tensors, **given}))
    return {**given, **{name: tensors[name] for name in op.mutates}}


def main() -> None:
    import torch

    as_on_a_gpu()
    cases = [Case(**case) for case in json.loads(sys.stdin.read())]
    plain = [
        values(load_entrypoint(f"gate.replay.providers.triton:{case.op_type}", case.op_type), case) for case in cases
    ]
    # Only now: it puts dialled kernels in the place of those.
    from tests.bench import dialled

    answers: list[list[str]] = []
    for case, wanted in zip(cases, plain, strict=True):
        answers.append([])
        for rounds in (0, ROUNDS):
            dialled.DIAL.rounds = rounds
            found = values(dialled.Adapter(case.op_type), case)
            same = {name: torch.equal(wanted[name].view(torch.uint8), found[name].view(torch.uint8)) for name in wanted}
            assert same
            answers[-1] += [f"{name} with {rounds} rounds" for name, equal in same.items() if not equal]
    sys.stdout.write(json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
