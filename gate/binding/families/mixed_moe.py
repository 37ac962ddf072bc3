"""The mixture of experts over 4-bit weights that FlyDSL had until July 2026: it serves checkouts of before that."""

from __future__ import annotations

from gate.binding.families.kernel import Constexprs, Kernel, Part, Tensor

TILE: dict[str, int] = {"tile_n": 128, "tile_k": 256}
TENSORS: dict[str, Tensor] = {
    "arg_out": ["u8", [1]],
    "arg_x": ["u8", [1]],
    "arg_w": ["u8", [1]],
    "arg_scale_x": ["u8", [1]],
    "arg_scale_w": ["u8", [1]],
    "arg_sorted_token_ids": ["i32", [1]],
    "arg_expert_ids": ["i32", [1]],
    "arg_sorted_weights": ["f32", [1]],
    "arg_max_token_ids": ["i32", [1]],
    "arg_num_valid_ids": ["i32", [1]],
    "arg_bias": ["f32", [1]],
    "arg_out_scale_sorted": ["u8", [1]],
}


def _parts(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """Both products; the first one leaves its output in the activations' format."""
    values = {**constexprs, **TILE, "a_dtype": dtype, "b_dtype": "fp4"}
    down = {**TENSORS, "arg_out": ["bf16", [1, int(constexprs["model_dim"])]]}
    return (
        Part(
            modules=("kernels.moe.mixed_moe_gemm_2stage.gemm1", "kernels.mixed_moe_gemm_2stage"),
            builders=("compile_mixed_moe_gemm1",),
            values={**values, "out_dtype": dtype, "doweight_stage1": False},
            tensors=TENSORS,
        ),
        Part(
            modules=("kernels.moe.mixed_moe_gemm_2stage.gemm2", "kernels.mixed_moe_gemm_2stage"),
            builders=("compile_mixed_moe_gemm2",),
            values={**values, "out_dtype": "bf16", "doweight_stage2": True},
            tensors=down,
        ),
    )


KERNEL = Kernel(op_type="mixed_moe", family="moe", parts=_parts, cases=())
