"""fused_rope_cache: rotates queries and keys by position, and writes keys and values into their slots of the cache."""

from __future__ import annotations

from typing import Any

from gate.replay.device import Memory
from gate.replay.op import ELEMENT_BYTES, Case, Op, Spec, Tensors, Tolerance, tolerances

WHY = "products and their sum may be rounded to 16 bits one by one; values reach 6, so 0.04 where they cancel"
# The width of the innermost axis of a key cache that is not in the flash layout.
PACKED = 16
# Twice as many slots as tokens, so that a write to a wrong slot rarely hits a right one.
SPARE = 2
POSITIONS = {"i32": "int32", "i64": "int64"}
SCALES = ("k_scale", "v_scale")


def sizes(case: Case) -> tuple[int, int, int, int]:
    """Tokens, query heads, key heads and the head's width."""
    return case.dim("seq_len"), case.dim("num_heads"), case.dim("num_kv_heads"), case.dim("head_dim")


def pages(case: Case) -> int:
    """Pages of the cache."""
    return -(-case.dim("seq_len") * SPARE // case.dim("block_size"))


def cache_dtype(case: Case) -> str:
    """A scaled cache holds fp8, any other the case's dtype."""
    return "fp8" if case.args.get("apply_scale") else case.dtype


def cache_shapes(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the key and of the value cache. Raises ValueError where the packed layout does not divide the head."""
    _, _, heads, width = sizes(case)
    count, block = pages(case), case.dim("block_size")
    if case.args.get("flash_layout", True):
        return (count, block, heads, width), (count, block, heads, width)
    if width % PACKED:
        raise ValueError(f"head_dim {width} is not a multiple of {PACKED}, as the packed cache needs")
    return (count, heads, width // PACKED, block, PACKED), (count, heads, width, block)


def distinct(memory: Memory, copies: int, *, count: int, among: int, seed: int) -> Any:
    """`count` different whole numbers below `among` in random order, (copies, count); repeated where too few."""
    order = memory.normal(memory.stack(copies, (among,), "fp32"), seed).argsort(dim=-1)
    return order.repeat(1, -(-count // among))[:, :count]


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    tokens, heads, kv_heads, width = sizes(case)
    shapes = {"q": (tokens, heads, width), "k": (tokens, kv_heads, width), "v": (tokens, kv_heads, width)}
    found = {
        name: memory.normal(memory.stack(copies, shape, case.dtype), seed + index)
        for index, (name, shape) in enumerate(shapes.items())
    }
    angles = memory.normal(memory.stack(copies, (case.dim("max_pos"), width // 2), "fp32"), seed + 3, 3.0)
    for name, values in (("cos", angles.cos()), ("sin", angles.sin())):
        found[name] = memory.stack(copies, (case.dim("max_pos"), width // 2), case.dtype)
        found[name].copy_(values)
    for name, among, at in (("positions", case.dim("max_pos"), 4), ("slots", pages(case) * case.dim("block_size"), 5)):
        found[name] = memory.stack(copies, (tokens,), POSITIONS[str(case.args.get("pos_dtype", "i32"))])
        found[name].copy_(distinct(memory, copies, count=tokens, among=among, seed=seed + at))
    if case.args.get("apply_scale"):
        for index, name in enumerate(SCALES):
            found[name] = memory.normal(memory.stack(copies, (1,), "fp32"), seed + 6 + index).abs_().add_(0.5)
    return found


def outputs(case: Case) -> dict[str, Spec]:
    if not case.args.get("reuse_freqs_front_part", True):
        raise ValueError("cosines are kept once for both halves of a head (reuse_freqs_front_part)")
    if case.args.get("rotate_style", "neox") not in ("neox", "gptj"):
        raise ValueError(f"rotate_style {case.args['rotate_style']} is neither neox nor gptj")
    tokens, heads, kv_heads, width = sizes(case)
    keys, values = cache_shapes(case)
    return {
        "q_out": Spec(shape=(tokens, heads, width), dtype=case.dtype),
        "k_out": Spec(shape=(tokens, kv_heads, width), dtype=case.dtype),
        "key_cache": Spec(shape=keys, dtype=cache_dtype(case), partial=True),
        "value_cache": Spec(shape=values, dtype=cache_dtype(case), partial=True),
    }


def rotated(case: Case, heads: Any, cos: Any, sin: Any) -> Any:
    """Heads (..., T, H, D) turned by the angles (..., T, 1, D / 2): halves of a head pair up, or neighbours (gptj)."""
    import torch

    if case.args.get("rotate_style", "neox") == "gptj":
        first, second = heads[..., 0::2], heads[..., 1::2]
        return torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def reference(case: Case, tensors: Tensors) -> Tensors:
    at = tensors["positions"].long().unsqueeze(-1).expand(-1, -1, case.dim("head_dim") // 2)
    cos, sin = (tensors[name].float().gather(1, at).unsqueeze(-2) for name in ("cos", "sin"))
    q, k = (rotated(case, tensors[name].float(), cos, sin) for name in ("q", "k"))
    kind = cache_dtype(case)
    return {"q_out": q, "k_out": k, f"keys as {kind}": k, f"values as {kind}": tensors["v"].float()}


def by_slot(case: Case, key_cache: Any, value_cache: Any) -> tuple[Any, Any]:
    """Both caches as (copies, slots, heads, width); copied where the layout is packed."""
    _, _, heads, width = sizes(case)
    form = (key_cache.shape[0], -1, heads, width)
    if not case.args.get("flash_layout", True):
        key_cache, value_cache = key_cache.permute(0, 1, 4, 2, 3, 5), value_cache.permute(0, 1, 4, 2, 3)
    return key_cache.reshape(form), value_cache.reshape(form)


def observe(case: Case, tensors: Tensors, given: Tensors) -> Tensors:
    kind = cache_dtype(case)
    slots = tensors["slots"].long()
    found = {"q_out": given["q_out"], "k_out": given["k_out"]}
    written = zip(("keys", "values"), SCALES, by_slot(case, given["key_cache"], given["value_cache"]), strict=True)
    for name, scale, cache in written:
        rows = cache.float().gather(1, slots[:, :, None, None].expand(-1, -1, *cache.shape[2:]))
        found[f"{name} as {kind}"] = rows * tensors[scale][:, :, None, None] if scale in tensors else rows
    return found


def bytes_moved(case: Case) -> float:
    tokens, heads, kv_heads, width = sizes(case)
    read = tokens * (heads + 2 * kv_heads) * width + 2 * min(tokens, case.dim("max_pos")) * (width // 2)
    written = tokens * (heads + kv_heads) * width
    cached = 2 * tokens * kv_heads * width * ELEMENT_BYTES[cache_dtype(case)]
    indices = 2 * tokens * ELEMENT_BYTES[POSITIONS[str(case.args.get("pos_dtype", "i32"))]]
    return (read + written) * case.element_bytes + cached + indices


def flops(case: Case) -> float:
    tokens, heads, kv_heads, width = sizes(case)
    return 3.0 * tokens * (heads + kv_heads) * width


FP8 = Tolerance(atol=5e-2, rtol=6.7e-2, why="half a step of three mantissa bits, after a rotation in 16 bits")
OP = Op(
    name="fused_rope_cache",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(4e-2, 1.6e-2), f16=(5e-3, 2e-3)),
    layout=(
        "q (T, heads, D), k and v (T, kv_heads, D), cos and sin (max_pos, D / 2), caches (pages, block_size, kv_heads, "
        "D) or, not in the flash layout, keys (pages, kv_heads, D / 16, block_size, 16) and values (pages, kv_heads, "
        "D, block_size), written in place at slots (T,)"
    ),
    refresh=("q", "k", "v", "positions", "slots"),
    observe=observe,
    limits={"keys as fp8": FP8, "values as fp8": FP8},
)
