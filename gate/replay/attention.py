"""What the attention ops share: the fp32 reference, the pairs that count, and how peaked the scores are made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from gate.replay.op import Case, tolerances

# Scores of the reference are held in fp32; more than this at once would not fit beside the ring.
SCORE_BYTES = 1 << 29
# Keys and values that are gathered for it, in fp32: those of a whole batch may be as large as the cache.
GATHERED_BYTES = 1 << 28

WHY = (
    "probabilities are rounded to the dtype of the values before the second product, and the sum runs in another "
    "order; with fp8 the queries are rounded to fp8 as well, 1 part in 16"
)
TOLERANCES = tolerances(WHY, bf16=(1e-2, 1.6e-2), f16=(2e-3, 4e-3), f32=(1e-4, 1e-4), fp8=(6e-2, 6e-2))


def reach(case: Case) -> int:
    """How many keys the last query sees: all, or those of a sliding window."""
    keys = case.dim("seq_k")
    return min(keys, int(case.args.get("window") or keys))


def query_scale(case: Case) -> float:
    """The spread of the queries: scores peak harder the more keys there are, so that no output drowns in the mean."""
    return math.sqrt(0.5 * math.log(max(reach(case), 3)))


def result_dtype(case: Case) -> str:
    """fp8 goes in, bf16 comes out."""
    return "bf16" if case.dtype == "fp8" else case.dtype


def pairs(case: Case) -> int:
    """Query-key pairs of one head that are not masked; queries are the last `seq_q` of `seq_k` positions."""
    queries, keys, window = case.dim("seq_q"), case.dim("seq_k"), reach(case)
    if not case.args.get("causal", True):
        return queries * window
    seen = range(keys - queries + 1, keys + 1)
    return sum(min(count, window) for count in seen if count > 0)


def flops(case: Case) -> float:
    """Two products: 2 flops for each element of a key and of a value, per pair and head."""
    return 2.0 * case.dim("batch") * case.dim("heads") * pairs(case) * (case.dim("dim_qk") + case.dim("dim_v"))


def attend(query: Any, key: Any, value: Any, *, causal: bool, window: int | None) -> Any:
    """Softmax attention in fp32. query (B, Sq, H, D), key (B, Sk, Hkv, D), value (B, Sk, Hkv, Dv) -> (B, Sq, H, Dv).

    Scores are scaled by 1 / sqrt(D). Queries are the last Sq of Sk positions; a window of w sees the w keys up to and
    including the query's own position (the sliding window of Mistral 7B, arXiv:2310.06825, section 2).
    """
    import torch

    batch, queries, heads, depth = query.shape
    keys = key.shape[1]
    rows = max(SCORE_BYTES // (4 * heads * keys), 1)
    out = torch.empty((batch, queries, heads, value.shape[-1]), dtype=torch.float32, device=query.device)
    together, step = (max(rows // queries, 1), queries) if rows >= queries else (1, rows)
    place = torch.arange(keys, device=query.device)
    for first in range(0, batch, together):
        part = slice(first, first + together)
        wide_key, wide_value = key[part].float(), value[part].float()
        for start in range(0, queries, step):
            stop = min(start + step, queries)
            own = torch.arange(start, stop, device=query.device)[:, None] + (keys - queries)
            # Keys that no query of the step sees are left out.
            oldest = 0 if window is None else max(start + keys - queries - window + 1, 0)
            seen = slice(oldest, max(stop + keys - queries, 1) if causal else keys)
            at = place[seen]
            hidden = at > own if causal else torch.zeros((stop - start, len(at)), dtype=torch.bool, device=own.device)
            if window is not None:
                hidden = hidden | (at <= own - window)
            asked = query[part, start:stop].float().unflatten(2, (key.shape[2], -1))
            scores = torch.einsum("bqhgd,bkhd->bhgqk", asked, wide_key[:, seen]) / math.sqrt(depth)
            weights = scores.masked_fill_(hidden, -math.inf).softmax(dim=-1)
            out[part, start:stop] = torch.einsum("bhgqk,bkhd->bqhgd", weights, wide_value[:, seen]).flatten(2, 3)
    return out


def gathered_parts(case: Case, kv_heads: int) -> Iterator[slice]:
    """The sequences of a batch in order, as many at a time as GATHERED_BYTES hold the keys and values of."""
    one = 4 * case.dim("seq_k") * kv_heads * (case.dim("dim_qk") + case.dim("dim_v"))
    step = max(GATHERED_BYTES // one, 1)
    for start in range(0, case.dim("batch"), step):
        yield slice(start, start + step)


def stacked(copies: list[Any]) -> Any:
    """One tensor with the leading axis of ring copies."""
    import torch

    return torch.stack(copies)
