"""What the row normalisations share: plain, after a residual addition, and with 8-bit codes instead of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gate.replay import codes
from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, Tolerance, tolerances

WHY = (
    "one rounding of the output to its dtype, another where the residual sum is rounded before it is normalised, and "
    "fp32 sums in another order; N up to 16384 adds under 1e-5"
)
EPS = 1e-5
CODED = {
    **codes.LIMITS,
    "out as int8": Tolerance(
        atol=2.0 / codes.LARGEST_INT8,
        rtol=0.0,
        why="a whole code, for kernels round to the nearest or toward zero, and another for up to five roundings to 16"
        " bits before that, each up to a quarter of a code (PyTorch's operators are off by 1.6 codes in all)",
    ),
    "scale": Tolerance(atol=0.0, rtol=2e-2, why="the largest magnitude of a row after up to five roundings to 16 bits"),
    "out as fp8": Tolerance(
        atol=2e-3,
        rtol=7e-2,
        why="half a step of three mantissa bits; a product that is rounded to 16 bits before the bias takes most of it"
        " away again is off by some thousandths of the row's largest magnitude",
    ),
}
SCALE_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """One normalisation over rows of length N.

    `centred`: LayerNorm, with a bias, instead of RMSNorm. `added`: x + residual is normalised and also put out.
    `coded`: out holds 8-bit codes with a scale a row; `smoothed`: columns are multiplied by `smooth` before that.
    """

    centred: bool = False
    added: bool = False
    coded: bool = False
    smoothed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The inputs of length N."""
        return ("weight", *(("bias",) if self.centred else ()), *(("smooth",) if self.smoothed else ()))

    @property
    def rows(self) -> tuple[str, ...]:
        """The inputs of M by N."""
        return ("x", "residual") if self.added else ("x",)

    def inputs(self, case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
        m, n = case.dim("M"), case.dim("N")
        shapes = {**dict.fromkeys(self.rows, (m, n)), **dict.fromkeys(self.columns, (n,))}
        stacks = {name: memory.stack(copies, shape, case.dtype) for name, shape in shapes.items()}
        return {name: memory.normal(stack, seed + index) for index, (name, stack) in enumerate(stacks.items())}

    def outputs(self, case: Case) -> dict[str, Spec]:
        m, n = case.dim("M"), case.dim("N")
        if not self.coded:
            specs = {"out": Spec(shape=(m, n), dtype=case.dtype)}
        else:
            codes.named(case)
            dtype = str(case.args.get("out_dtype", "int8"))
            specs = {"out": Spec(shape=(m, n), dtype=dtype), "scale": Spec(shape=(m, 1), dtype="fp32")}
        return {**specs, "residual_out": Spec(shape=(m, n), dtype=case.dtype)} if self.added else specs

    def values(self, case: Case, tensors: Tensors) -> tuple[Any, Any]:
        """The normalised rows and, before that, the sum with the residual; fp32."""
        x = tensors["x"].float()
        total = x + tensors["residual"].float() if self.added else x
        centred = total - total.mean(dim=-1, keepdim=True) if self.centred else total
        scale = (centred.square().mean(dim=-1, keepdim=True) + float(case.args.get("eps", EPS))).rsqrt()
        out = centred * scale * tensors["weight"].float().unsqueeze(-2)
        out = out + tensors["bias"].float().unsqueeze(-2) if self.centred else out
        return (out * tensors["smooth"].float().unsqueeze(-2) if self.smoothed else out), total

    def reference(self, case: Case, tensors: Tensors) -> Tensors:
        out, total = self.values(case, tensors)
        expected = codes.expected(case, out) if self.coded else {"out": out}
        return {**expected, "residual_out": total} if self.added else expected

    def observe(self, case: Case, inputs: Tensors, outputs: Tensors) -> Tensors:
        """Codes as the reference has them; the sum with the residual as it is."""
        kept = {name: value for name, value in outputs.items() if name == "residual_out"}
        return {**codes.observed(case, self.values(case, inputs)[0], outputs), **kept}

    def bytes_moved(self, case: Case) -> float:
        m, n = case.dim("M"), case.dim("N")
        whole = len(self.rows) + (1 if self.added else 0) + (0 if self.coded else 1)
        coded = m * n + m * SCALE_BYTES if self.coded else 0
        return (whole * m * n + len(self.columns) * n) * case.element_bytes + coded

    def flops(self, case: Case) -> float:
        """Square, sum, scale and gain of each element; the mean, the bias, the addition and the codes besides."""
        each = 4 + 3 * self.centred + self.added + 2 * self.coded + self.smoothed
        return float(each) * case.dim("M") * case.dim("N")

    @property
    def layout(self) -> str:
        """The layout contract in words."""
        names = ", ".join((*self.rows, *(("residual_out",) if self.added else ())))
        out = "codes out (M, N) with scale (M, 1) fp32" if self.coded else "out row-major (M, N)"
        return f"{names} row-major (M, N), {', '.join(self.columns)} (N,), {out}"


def norm_op(name: str, norm: Norm) -> Op:
    """The op of a normalisation."""
    return Op(
        name=name,
        inputs=norm.inputs,
        outputs=norm.outputs,
        reference=norm.reference,
        bytes_moved=norm.bytes_moved,
        flops=norm.flops,
        tolerances=tolerances(WHY, bf16=(2e-2, 1.6e-2), f16=(2e-3, 2e-3), f32=(1e-5, 2e-5)),
        layout=norm.layout,
        # AITER and FlyDSL take the factors of the columns in fp32, which `prepare` makes.
        refresh=(*norm.rows, *(name for name in norm.columns if name != "smooth")),
        observe=norm.observe if norm.coded else None,
        limits=CODED if norm.coded else {},
    )
