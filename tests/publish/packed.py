"""Bundles and archives as a run packs them, whole or changed."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from gate.publish import archive, bundle
from tests.factory import make_outcome, make_shape
from tests.publish.conftest import SHA

SHAPES = [make_shape(args={"M": m, "N": 8192}) for m in (1, 32, 256)]


def zipped(data: bytes, *, name: str = archive.MEMBER, **more: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(name, data)
        for other, content in more.items():
            out.writestr(other, content)
    return buffer.getvalue()


def packed(*, head_us: float = 10.0, head_sha: str = SHA, **limits: Any) -> bytes:
    """Both sides of a small run, measured interleaved in one session."""
    rows = {"base_results": rows_of(10.0), "head_results": rows_of(head_us)}
    return bundle.encode(rows, head_sha=head_sha, base_sha="b" * 40, **limits)


def rows_of(candidate_us: float) -> list[Any]:
    found = []
    for shape in SHAPES:
        for provider, us in (("flydsl", candidate_us), ("pytorch", 12.0)):
            blocks = tuple(tuple(us * (1 + 0.001 * ((i + j) % 3)) for j in range(4)) for i in range(8))
            more = {"provider": provider, "median_us": us, "blocks_us": blocks, "session_id": "s1"}
            found.append(make_outcome(shape, **more))
    return found


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def joined(rows: list[Any]) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows) + b"\n"
