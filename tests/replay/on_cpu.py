"""An op and a provider's kernel on torch's CPU tensors: values only, no time."""

from __future__ import annotations

from typing import Any

from gate.replay.integrity import Finding
from gate.replay.memory_torch import TorchMemory
from gate.replay.op import Case, load_op
from gate.replay.outputs import Outputs
from gate.replay.provider import ProviderAdapter, load_entrypoint


def case_for(op_type: str, dtype: str, **args: Any) -> Case:
    """A case that no ledger needs to hold."""
    return Case(shape_id="s", op_type=op_type, dtype=dtype, args=args, layout={})


def judged(kernel: str | ProviderAdapter, case: Case, *, copies: int = 2, seed: int = 5) -> list[Finding]:
    """What the checks of the values find in one call per ring copy; none where all is right."""
    op = load_op(case.op_type)
    adapter = load_entrypoint(kernel, case.op_type) if isinstance(kernel, str) else kernel
    refusal = op.refusal(case) or adapter.supports(case)
    assert refusal is None, refusal
    memory: Any = TorchMemory("cpu")
    outputs = Outputs(device=memory, op=op, case=case, inputs=op.inputs(case, memory, copies, seed))
    outputs.allocate(copies)
    kept = {name: value.clone() for name, value in outputs.inputs.items() if name not in op.mutates}
    for index in range(copies):
        tensors = {name: value[index] for name, value in {**outputs.inputs, **outputs.given}.items()}
        state = adapter.prepare(case, tensors)
        result = adapter.launch(state)
        outputs.results[index] = None if result is None else dict(result)
    for name, value in kept.items():
        assert memory.digest([value]) == memory.digest([outputs.inputs[name]]), f"{name} was written"
    return outputs.judge(range(copies))[0]
