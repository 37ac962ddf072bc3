"""Lines of result files as providers write them, and the fast way of reading them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.history import decoding
from gate.history.block import Block
from gate.model.problem import Problem
from tests.history import nights

ROWS = 600
MIDDLE = ROWS // 2
encode = msgspec.json.Encoder(order="deterministic").encode


def read_rows(paths: Sequence[Path]) -> tuple[list[Block], list[Problem]]:
    return decoding.read(paths, regular=store.regular, decode=store.decode_bulk)


def rows(count: int = ROWS) -> list[dict[str, Any]]:
    """Rows of one run as dictionaries, as a provider's and an op's details make them differ."""
    made = []
    for number in range(count):
        provider = nights.PROVIDERS[number % 3]
        one = json.loads(encode(nights.row(0, number % 3, provider, 1 + number / 7, op_type=f"op{number % 5}")))
        one |= {"shape_id": f"sha1:{number:016x}", "args": {"N": 2, "M": number // 3, "eps": 1e-6, "x": [1, "a,b"]}}
        made.append({**one, "blocks_us": [[1.5, 2.5]], "warmup_iters": 25})
    return made


def compact(one: dict[str, Any]) -> bytes:
    return json.dumps(one, separators=(",", ":")).encode()


def written(folder: Path, lines: list[bytes], name: str = store.RESULTS_FILE, end: bytes = b"\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(lines) + end)
    return path
