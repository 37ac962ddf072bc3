"""3-D convolutions as implicit matrix products, and the transposition that feeds them."""

from __future__ import annotations

from gate.binding.families.kernel import Constexpr, Constexprs, Kernel, Part

BF16 = "kernels.conv.conv3d_implicit"
FP8 = "kernels.conv.conv3d_implicit_fp8"
# A block of a video autoencoder: kernel 3x3x3, stride 1, padding 1.
UNIT: dict[str, Constexpr] = {"kt": 3, "kh": 3, "kw": 3, "st": 1, "sh": 1, "sw": 1, "pt": 1, "ph": 1, "pw": 1}


def _conv(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    fp8 = dtype == "fp8"
    size = {name: int(constexprs[name]) for name in ("n", "c", "d", "h", "w", "k", "kt", "kh", "kw")}
    outside = size["n"] * size["d"] * size["h"] * size["w"]
    held, layout = ("i8", "static") if fp8 else ("bf16", "dynamic")
    width = {"width": size["w"]} if fp8 else {}
    values = {name: value for name, value in constexprs.items() if not (fp8 and name == "w")}
    image = [size["n"], size["k"], size["d"], size["h"], size["w"]]
    tensors = {
        "y": ["bf16", [outside * size["k"]], layout] if fp8 else ["bf16", image],
        "x": [held, [outside * size["c"]], layout]
        if fp8
        else [held, [size["n"], size["d"], size["h"], size["w"], size["c"]]],
        "weight": [held, [size["k"] * size["c"] * 27], layout],
        "bias": ["f32", [1], layout],
    }
    builder = "compile_conv3d_implicit_fp8" if fp8 else "compile_conv3d_implicit"
    module = FP8 if fp8 else BF16
    return (Part(modules=(module,), builders=(builder,), values={**values, **width}, tensors=tensors),)


def _transpose(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    fp8 = dtype == "fp8"
    n, c, s = (int(constexprs[name]) for name in ("n", "c", "s"))
    shape = [n * s * c] if fp8 else [n, c, s]
    one = ["i8" if fp8 else "bf16", shape, "static" if fp8 else "dynamic"]
    builder = f"compile_transpose_ncdhw_ndhwc{'_fp8' if fp8 else ''}"
    tensors = {"out": one, "inp": one}
    return (Part(modules=(FP8 if fp8 else BF16,), builders=(builder,), values=dict(constexprs), tensors=tensors),)


KERNELS = (
    Kernel(
        op_type="conv3d",
        family="conv",
        parts=_conv,
        cases=(
            ("bf16", {"n": 1, "c": 128, "d": 3, "h": 16, "w": 16, "k": 256, **UNIT}),
            ("bf16", {"n": 1, "c": 192, "d": 6, "h": 16, "w": 20, "k": 192, **UNIT}),
            ("fp8", {"n": 1, "c": 128, "d": 3, "h": 16, "w": 16, "k": 256, **UNIT}),
            ("fp8", {"n": 1, "c": 96, "d": 4, "h": 8, "w": 9, "k": 96, **UNIT}),
        ),
    ),
    Kernel(
        op_type="conv3d_transpose",
        family="conv",
        parts=_transpose,
        cases=(("bf16", {"n": 1, "c": 128, "s": 768}), ("fp8", {"n": 1, "c": 128, "s": 768})),
    ),
)
