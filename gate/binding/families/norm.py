"""Row normalisations, forward and backward, and those that quantise what they normalise."""

from __future__ import annotations

from collections.abc import Callable

from gate.binding.families.kernel import ROWS, Constexpr, Constexprs, Kernel, Part, Tensor

PROGRAMS = 256


def row_tensors(dtype: str, n: int, out: str) -> dict[str, Tensor]:
    """Every tensor that a row kernel may ask for, by the name it uses: rows, weights of the axis, values per row."""
    rows = dict.fromkeys(("Input", "A", "C", "DY", "Y", "DX", "Added", "ResidualIn", "ResidualOut", "DResidualOut"))
    weights = dict.fromkeys(("Gamma", "Beta"))
    sums = dict.fromkeys(("DWeight", "DGamma", "DBias", "XScale"))
    per_row = dict.fromkeys(("Mean", "Rstd", "YScale"))
    return {
        **{name: [dtype, [ROWS, n]] for name in rows},
        **{name: [dtype, [n]] for name in weights},
        **{name: ["f32", [n]] for name in sums},
        **{name: ["f32", [ROWS]] for name in per_row},
        "Output": [out, [ROWS, n]],
        "DWeightPartial": ["f32", [PROGRAMS, n]],
    }


def row_parts(module: str, builder: str, *, out: str | None = None) -> Callable[[str, Constexprs], tuple[Part, ...]]:
    """A builder of (N, dtype_str) and whatever else the case names; older checkouts also take M."""

    def parts(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
        n = int(constexprs["N"])
        # A row's codes: 8-bit integers, or fp8 as its bytes.
        coded = {"fp8": "u8"}.get(str(constexprs.get("quant_dtype_str")), out)
        tensors = row_tensors(dtype, n, coded or dtype)
        if "weight_dtype_str" in constexprs:
            weight = str(constexprs["weight_dtype_str"])
            tensors = {**tensors, "Gamma": [weight, [n]]}
        values = {**constexprs, "dtype_str": dtype}
        return (Part(modules=(module,), builders=(builder,), values=values, offers={"M": 4096}, tensors=tensors),)

    return parts


RMSNORM = "kernels.norm.rmsnorm_kernel"
RMSNORM_BWD = "kernels.norm.rmsnorm_bwd_kernel"
LAYERNORM = "kernels.norm.layernorm_kernel"


Cases = tuple[tuple[str, dict[str, Constexpr]], ...]


def _ns(dtype: str, *sizes: int, **more: Constexpr) -> Cases:
    return tuple((dtype, {"N": n, **more}) for n in sizes)


def _kernel(
    op_type: str, module: str, builder: str, *, cases: Cases, family: str = "norm", out: str | None = None
) -> Kernel:
    parts = row_parts(module, builder, out=out)
    return Kernel(op_type=op_type, family=family, parts=parts, cases=cases, occupancy_bound=True)


NORMS = (
    _kernel(
        "rmsnorm",
        RMSNORM,
        "build_rmsnorm_module",
        cases=(
            *_ns("bf16", 512, 2048, 3001, 4096, 8192),
            *_ns("f16", 4096),
            *_ns("f32", 4096),
            *_ns("bf16", 4096, store_rstd=True),
            *_ns("bf16", 4096, weight_dtype_str="f32"),
        ),
    ),
    _kernel(
        "rmsnorm_small_rows",
        RMSNORM,
        "_build_rmsnorm_large_m_small_n_module",
        cases=_ns("bf16", 128, 512),
    ),
    _kernel(
        "rmsnorm_fused_add",
        RMSNORM,
        "build_fused_add_rmsnorm_module",
        cases=(*_ns("bf16", 2048, 8192), *_ns("f32", 4096)),
    ),
    _kernel("rmsnorm_bwd", RMSNORM_BWD, "build_rmsnorm_bwd_module", cases=_ns("bf16", 3001, 4096)),
    _kernel("rmsnorm_fused_add_bwd", RMSNORM_BWD, "build_fused_add_rmsnorm_bwd_module", cases=_ns("bf16", 4096)),
    *(
        _kernel(
            f"rmsnorm{added}_bwd_two_stage",
            RMSNORM_BWD,
            f"build{added}_rmsnorm_bwd_two_stage_module",
            cases=_ns("bf16", 4096, num_programs=PROGRAMS),
        )
        for added in ("", "_fused_add")
    ),
    _kernel(
        "layernorm",
        LAYERNORM,
        "build_layernorm_module",
        cases=(*_ns("bf16", 2048, 3001, 8192), *_ns("f32", 4096), *_ns("bf16", 4096, store_stats=True)),
    ),
    _kernel("layernorm_bwd", LAYERNORM, "build_layernorm_bwd_module", cases=_ns("bf16", 4096)),
    _kernel(
        "layernorm_fused_add",
        LAYERNORM,
        "build_fused_add_layernorm_module",
        cases=_ns("bf16", 4096, 8192),
    ),
    _kernel(
        "softmax",
        "kernels.norm.softmax_kernel",
        "build_softmax_module",
        cases=(*_ns("bf16", 128, 4096, 16384), *_ns("f16", 4096), *_ns("f32", 1000, 8192)),
    ),
    _kernel(
        "softmax_bwd",
        "kernels.norm.softmax_bwd_kernel",
        "build_softmax_bwd_module",
        cases=(*_ns("bf16", 4096, 16384), *_ns("f32", 4096)),
    ),
)

QUANTS = tuple(
    _kernel(
        f"{norm}{fused}_{kind}",
        module,
        f"build_{'fused_add_' if fused else ''}{norm}_{kind}_module",
        family="quant",
        out="i8",
        cases=_ns("bf16", *((4096, 8192) if not fused else (8192,))),
    )
    for norm, module in (("rmsnorm", RMSNORM), ("layernorm", LAYERNORM))
    for fused in ("", "_fused_add")
    for kind in ("dynamicquant", "smoothquant")
)
