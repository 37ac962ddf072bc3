"""The raw samples of a run, one record per visit: Parquet where pyarrow is installed, else JSON lines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

COLUMNS = (
    "session_id", "shape_id", "gpu", "arm", "commit", "look", "block", "order", "repeat", "copies", "launches",
    "cache_state", "shared", "t_us", "full_us", "single_us", "gpu_us", "clock_mhz", "memory_mhz", "power_w",
    "temperature_c", "throttle", "at",
)  # fmt: skip


def sample_rows(records: Iterable[Mapping[str, Any]], *, session_id: str) -> Iterator[dict[str, Any]]:
    """One flat record per visit of every finished shape, in measured order. Times in microseconds, `at` in seconds.

    Of a block that was measured again the largest `repeat` is what counts.
    """
    for record in records:
        for visit in record["raw"]:
            arm = record["arms"][visit["arm"]]
            plan = arm["plan"] or {}
            known = {
                **visit,
                "session_id": session_id,
                "shape_id": record["shape_id"],
                "gpu": record["gpu"],
                "commit": arm["commit"],
                "shared": arm.get("shared"),
                **{name: plan.get(name) for name in ("copies", "launches", "cache_state")},
            }
            yield {name: known.get(name) for name in COLUMNS}


def encode_samples(rows: list[dict[str, Any]]) -> tuple[str, bytes]:
    """File name suffix and bytes of the samples."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return ".jsonl", b"".join(json.dumps(row, sort_keys=True).encode() + b"\n" for row in rows)
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer, compression="zstd")
    return ".parquet", buffer.getvalue()
