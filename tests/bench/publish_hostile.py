"""Two hundred hostile artifacts against the intake: none may be accepted, none may crash it.

`python -m tests.bench.publish_hostile [SEED]` prints a line for each family. The artifacts are made from a valid one.
"""

# ruff: noqa: E501  # a table reads best with one entry a line

from __future__ import annotations

import io
import json
import random
import struct
import sys
import time
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from gate.publish import archive, bundle
from gate.publish.archive import NotTaken
from tests.factory import make_outcome, make_shape

SHA, OTHER = "a" * 40, "c" * 40
ROW = make_outcome(make_shape())
Case = tuple[str, bytes]


def zipped(data: bytes, *, name: str = archive.MEMBER, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as out:
        out.writestr(name, data)
    return buffer.getvalue()


def lines(head_sha: str = SHA, rows: int = 3) -> list[Any]:
    found = [msgspec.structs.replace(ROW, run_id=f"run-{i}") for i in range(rows)]
    data = bundle.encode({"head_results": found}, head_sha=head_sha, base_sha=None)
    return [json.loads(line) for line in data.splitlines()]


def joined(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def bombs(dice: random.Random) -> Iterator[Case]:
    for size in (129 << 20, 200 << 20):
        yield "bomb", zipped(bytes(size))
    for _ in range(9):
        good = bytearray(zipped(bytes(dice.randrange(1 << 20, 8 << 20))))
        at = good.rfind(b"PK\x01\x02")
        struct.pack_into("<I", good, at + 24, dice.choice((10, 100, 0xFFFFFFFF)))  # the size that the directory claims
        yield "lying sizes", bytes(good)
    for depth in range(3):
        inner = zipped(joined(lines()))
        for _ in range(depth + 1):
            inner = zipped(inner)
        yield "nested archives", inner
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as out:
        for number in range(5000):
            out.writestr(f"{number}", b"")
    yield "many members", many.getvalue()


def names(dice: random.Random) -> Iterator[Case]:
    good = joined(lines())
    listed = ("../../x", "/etc/passwd", "..\\..\\x", "a/../bundle.jsonl", "./bundle.jsonl", "bundle.jsonl/", "BUNDLE.JSONL",
              "bundle.jsonl ", "bundle.json", "C:\\bundle.jsonl", "bundle.jsonl\n", "bundlé.jsonl", "." * 300, "~/bundle.jsonl")  # fmt: skip
    for name in listed:
        yield "traversal and names", zipped(good, name=name)
    for other in ("x", "../x", "bundle.jsonl"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as out:
            out.writestr(archive.MEMBER, good)
            out.writestr(other, b"x")
        yield "more members", buffer.getvalue()
    link = zipfile.ZipInfo(archive.MEMBER)
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        out.writestr(link, "/etc/passwd")
    yield "symbolic link", buffer.getvalue()
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield "other compression", zipped(good, method=method)
    encrypted = bytearray(zipped(good))
    encrypted[6] |= 1
    encrypted[encrypted.rfind(b"PK\x01\x02") + 8] |= 1
    yield "encrypted", bytes(encrypted)


def damage(dice: random.Random) -> Iterator[Case]:
    good = zipped(joined(lines()))
    for _ in range(20):
        yield "cut off", good[: dice.randrange(len(good) - 1)]
    for _ in range(10):
        yield "noise", dice.randbytes(dice.randrange(1, 4000))
    for _ in range(8):
        yield "noise inside", zipped(dice.randbytes(dice.randrange(1, 4000)))


def rows_changed(dice: random.Random) -> Iterator[Case]:
    values: tuple[tuple[str, Any], ...] = (
        ("median_us", "fast"), ("median_us", 1e300), ("median_us", [1.0]), ("median_us", {"us": 1}), ("median_us", True),
        ("repeat_iters", 10**40), ("repeat_iters", 1.5), ("repeat_iters", -(10**30)), ("shape_id", "sha1:0"),
        ("shape_id", None), ("shape_id", "sha1:" + "g" * 16), ("provider", "mine"), ("provider", 7),
        ("benchmark_status", "great"), ("benchmark_status", None), ("correct", "yes"), ("notes", "x" * 4001),
        ("notes", "\udfff"), ("run_id", None), ("run_id", 5), ("blocks_us", [[1.0, "a"]]), ("blocks_us", [1.0]),
        ("blocks_us", [[1e19]]), ("args", [1]), ("args", {"k": {"k": {"k": {"k": {"k": {"k": {"k": 0}}}}}}}),
        ("args", {str(i): i for i in range(20_001)}), ("args", {"x" * 4001: 1}), ("timing_method", "guess"),
        ("cache_state", "tepid"), ("gpu", ["MI350X"]),
    )  # fmt: skip
    for field, value in values:
        rows = lines()
        rows[dice.randrange(1, 4)]["row"][field] = value
        yield "row against its schema or a cap", zipped(joined(rows))
    for field in ("run_id", "shape_id", "provider", "benchmark_status", "correct", "gpu", "warmup_iters"):
        rows = lines()
        del rows[1]["row"][field]
        yield "row lacks a field", zipped(joined(rows))


def headers(dice: random.Random) -> Iterator[Case]:
    yield "wrong commit", zipped(joined(lines(OTHER)))
    changes: tuple[dict[str, Any], ...] = (
        {"head_sha": SHA.upper()}, {"head_sha": SHA[:12]}, {"head_sha": None}, {"head_sha": [SHA]}, {"base_sha": "main"},
        {"base_sha": 5}, {"base_sha": "B" * 40}, {"schema": "gate.bundle/2"}, {"schema": None}, {"counts": {}},
        {"counts": None}, {"counts": {"head_results": 2}}, {"counts": [3]}, {"counts": {"head_results": "3"}},
        {"pull": 12}, {"pull_request": {"number": 1}}, {"repo": "evil/x"}, {"comment": "<b>all is well</b>"},
        {"run_id": 99}, {"policy": {"slower": 9}},
    )  # fmt: skip
    for change in changes:
        rows = lines()
        rows[0] |= change
        family = (
            "foreign pull request or words" if set(change) - {"head_sha", "base_sha", "schema", "counts"} else "header"
        )
        yield family, zipped(joined(rows))
    for rows in (
        [],
        [None],
        [[]],
        [1],
        ["x"],
        lines()[1:],
        [*lines(), lines()[0]],
        [*lines(), lines()[1]],
        lines()[:-1],
    ):
        yield "not a header and its rows", zipped(joined(rows))
    for extra in ({"part": "policy", "row": {}}, {"part": "decision", "row": {"gate": "pass"}}, {"part": [], "row": {}},
                  {"part": None, "row": None}, {"row": {}}, {"part": "head_results"}, {"part": {}, "row": []}):  # fmt: skip
        yield "unknown part", zipped(joined([*lines(), extra]))


def texts(dice: random.Random) -> Iterator[Case]:
    raw = joined(lines())
    for text in ("NaN", "Infinity", "-Infinity", "1e400", "-1e999", "1" * 4000, "1" * 5000, "0x10", "01", "'a'", "+1", "1.",
                 "nul", "[" * 1000, "[" * 100_000, '{"a":' * 50_000, '{"a":1,"a":2}', "", "\x00"):  # fmt: skip
        yield "not strict JSON", zipped(raw.replace(b'"median_us": 10.0', b'"median_us": ' + text.encode(), 1))
    yield "not UTF-8", zipped(raw.replace(b"test", b"t\xffst", 1))
    yield "UTF-16", zipped(raw.decode().encode("utf-16"))
    yield "byte order mark", zipped(b"\xef\xbb\xbf" + raw)
    yield "line too long", zipped(raw.replace(b'"notes": null', b'"notes": "' + b"x" * 300_000 + b'"', 1))
    yield "too many lines", zipped(raw + b"{}\n" * 100_001)
    yield "empty", zipped(b"")
    yield "blank lines", zipped(b"\n" * 1000)
    for _ in range(30):
        noisy = bytearray(raw)
        for _ in range(6):
            noisy[dice.randrange(len(noisy))] = dice.randrange(256)
        yield "flipped bytes", zipped(bytes(noisy) + b"{")


FAMILIES: tuple[Callable[[random.Random], Iterator[Case]], ...] = (bombs, names, damage, rows_changed, headers, texts)


def taken(data: bytes) -> str:
    try:
        bundle.decode(archive.member(data), head_sha=SHA)
    except NotTaken:
        return "refused"
    except Exception as error:  # noqa: BLE001  # whatever else it is, it is the crash that is counted here
        return f"crashed: {type(error).__name__}"
    return "accepted"


def main(seed: int = 1) -> Counter[str]:
    assert taken(zipped(joined(lines()))) == "accepted", "the artifact that all others are made from"
    total: Counter[str] = Counter()
    by_family: dict[str, Counter[str]] = {}
    start, peak = time.monotonic(), 0
    tracemalloc.start()
    for family in FAMILIES:
        for name, data in family(random.Random(seed)):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            how = taken(data)
            peak = max(peak, tracemalloc.get_traced_memory()[1] - before >> 20)
            total[how.split(":")[0]] += 1
            by_family.setdefault(name, Counter())[how] += 1
    tracemalloc.stop()
    for name, counts in by_family.items():
        print(f"{name:32} {sum(counts.values()):4}  {', '.join(f'{n} {how}' for how, n in sorted(counts.items()))}")
    print(f"{sum(total.values())} hostile artifacts, {time.monotonic() - start:.1f} s, at most {peak} MiB more memory: "
          f"{total['refused']} refused, {total['accepted']} accepted, {total['crashed']} crashed")  # fmt: skip
    return total


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
