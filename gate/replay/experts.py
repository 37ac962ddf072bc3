"""What the fused products of a mixture of experts share: random routing, two grouped products, their lower bounds.

Every provider gets topk_ids and topk_weights. FlyDSL's kernels take the sorted ids of its sorting kernel as an input,
so grouping tokens by expert belongs to `prepare`, and the routing is not among the inputs that may be replaced later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, Tolerance, op_of
from gate.replay.quantised import fill_operand, operand_bytes, reached_rms, widen, widened

# The forms of the activations and of the weights, by the dtype of the ledger row.
Forms = Mapping[str, tuple[str, str]]

WHY = (
    "the reference keeps the activations between the two products in fp32, a provider may store them in the row's "
    "activation dtype, FlyDSL in fp4 for mixed_a8w4 too: 2.6% (fp8, int8) or 12% (fp4) of an output near 1, up to "
    "2 for the tokens of the largest scale, and 6 sigma"
)
# The root mean square of silu(g) * u for g, u ~ N(0, 1); near 1 it grows with the 2.5th power of theirs.
GATED_RMS = 0.6
MISSES = 4.0


def expert_shapes(case: Case) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Logical shapes of x (M, Dim1), w1 (E, Dim2, Dim1) and w2 (E, Dim1, Dim2 / 2). Raises ValueError for odd Dim2."""
    m, experts, wide, both = (case.dim(name) for name in ("M", "E", "Dim1", "Dim2"))
    if both % 2:
        raise ValueError(f"Dim2 holds gate and up: {both} is odd")
    if case.dim("TopK") > experts:
        raise ValueError(f"a token goes to no more experts than there are: TopK = {case.dim('TopK')}, E = {experts}")
    return (m, wide), (experts, both, wide), (experts, wide, both // 2)


def activated(case: Case) -> float:
    """Experts that at least one token visits, of random distinct choices: the mean less four standard deviations.

    The number of unvisited experts varies less than a binomial one of the same mean.
    """
    experts, topk = case.dim("E"), case.dim("TopK")
    share = (1.0 - topk / experts) ** case.dim("M")
    missed = experts * share + MISSES * math.sqrt(experts * share * (1.0 - share))
    return max(float(topk), experts - missed)


def routing(memory: Memory, copies: int, seed: int, case: Case) -> Tensors:
    """topk_ids i32 (M, TopK), distinct for each token, and topk_weights fp32 that sum to 1 and differ by up to 2."""
    m, topk, experts = case.dim("M"), case.dim("TopK"), case.dim("E")
    ids = memory.stack(copies, (m, topk), "int32")
    lots = memory.stack(1, (m, experts), "int32")
    for index in range(copies):
        memory.copy(ids[index], memory.integers(lots, seed + 2 * index, 0, 1 << 30)[0].argsort(-1)[:, :topk])
    weights = memory.normal(memory.stack(copies, (m, topk), "fp32"), seed + 1, 0.2).add_(1.0).clamp_(0.67, 1.33)
    return {"topk_ids": ids, "topk_weights": weights.div_(weights.sum(dim=-1, keepdim=True))}


def grouped(ids: Any, experts: int) -> Iterator[tuple[int, Any]]:
    """Each visited expert with the flat (token, slot) places that go to it, in order; waits for the device."""
    flat = ids.flatten().long()
    order = flat.argsort(stable=True)
    start = 0
    for expert, count in enumerate(flat.bincount(minlength=experts).tolist()):
        if count:
            yield expert, order[start : start + count]
        start += count


def _one_reference(case: Case, tensors: Tensors, weight_form: str, x: Any) -> Any:
    topk, out = case.dim("TopK"), x * 0
    weights = tensors["topk_weights"].flatten()
    for expert, places in grouped(tensors["topk_ids"], case.dim("E")):
        token = places // topk
        w1, w2 = (widen(tensors[name][expert], tensors[f"scale_{name}"][expert], weight_form) for name in ("w1", "w2"))
        gate, up = (x[token] @ w1.T).chunk(2, dim=-1)
        out.index_add_(0, token, (gate * gate.sigmoid() * up) @ w2.T * weights[places].unsqueeze(-1))
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The facts of a mixture of experts with these forms; the methods are those of `Op`."""

    forms: Forms

    def inputs(self, case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
        (left, right), (x, w1, w2) = self.forms[case.dtype], expert_shapes(case)
        up = w1[-1] ** -0.5
        before = reached_rms(left, 1.0) * reached_rms(right, up) / up
        down = math.sqrt(case.dim("TopK") / w2[-1]) / (GATED_RMS * before**2.5)
        return {
            **fill_operand(memory, copies, seed, name="x", shape=x, form=left, rms=1.0),
            **fill_operand(memory, copies, seed + 2, name="w1", shape=w1, form=right, rms=up),
            **fill_operand(memory, copies, seed + 4, name="w2", shape=w2, form=right, rms=down),
            **routing(memory, copies, seed + 6, case),
        }

    def outputs(self, case: Case) -> dict[str, Spec]:
        return {"out": Spec(shape=expert_shapes(case)[0], dtype="bf16")}

    def reference(self, case: Case, tensors: Tensors) -> Tensors:
        left, right = self.forms[case.dtype]
        x = widened(tensors, "x", left)
        # Copy by copy and expert by expert: all the weights in fp32 would not fit beside the ring.
        for index in range(len(x)):
            one = {name: value[index] for name, value in tensors.items()}
            x[index] = _one_reference(case, one, right, x[index])
        return {"out": x}

    def bytes_moved(self, case: Case) -> float:
        (left, right), (x, w1, w2) = self.forms[case.dtype], expert_shapes(case)
        one_expert = operand_bytes(w1[1:], right) + operand_bytes(w2[1:], right)
        places = case.dim("M") * case.dim("TopK")
        return operand_bytes(x, left) + 8.0 * places + activated(case) * one_expert + 2.0 * math.prod(x)

    def flops(self, case: Case) -> float:
        _, w1, w2 = expert_shapes(case)
        return 2.0 * case.dim("M") * case.dim("TopK") * (math.prod(w1[1:]) + math.prod(w2[1:]))


LAYOUT = (
    "x row-major (M, Dim1), w1 (E, Dim2, Dim1) gate rows before up rows and w2 (E, Dim1, Dim2 / 2) row-major as they "
    "arrive, topk_ids i32 and topk_weights f32 (M, TopK), out row-major (M, Dim1) bf16; weights may be shuffled and "
    "tokens grouped by expert before the clock starts; both products and what lies between are timed; "
)


def experts_op(name: str, *, forms: Forms, tolerances: Mapping[str, Tolerance], scales: str) -> Op:
    """The op of that name; `scales` says how the operands' scales lie."""
    facts = Experts(forms=forms)
    return op_of(facts, name=name, tolerances=tolerances, layout=LAYOUT + scales, refresh=("x",))
