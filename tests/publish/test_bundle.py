"""An artifact's bytes, which anybody may have written: the archive, the bundle in it, its rows, and the caps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.publish import archive, bundle
from gate.publish.archive import Caps, NotTaken
from tests.publish.conftest import OTHER, SHA
from tests.publish.packed import joined, lines, packed, rows_of, zipped


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "zip"),
        (b"PK\x03\x04 not a zip", "zip"),
        (zipped(b"x", name="../../x"), "member is"),
        (zipped(b"x", name="/etc/passwd"), "member is"),
        (zipped(b"x", name="bundle.jsonl_.sh").replace(b"jsonl_", b"jsonl\x00"), "member is"),
        (zipped(b"x", name="dir/bundle.jsonl"), "member is"),
        (zipped(b"x", other=b"y"), "2 members"),
        (zipped(packed())[:-40], "zip"),
        (zipped(bytes(200 << 20)), "more than"),
    ],
)
def test_an_archive_that_is_not_one_plain_member_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(NotTaken, match=words):
        archive.member(data)


def test_a_bomb_is_inflated_no_further_than_the_cap() -> None:
    with pytest.raises(NotTaken, match="more than 1,000 bytes"):
        archive.member(zipped(bytes(10_000)), caps=Caps(member_bytes=1000))
    assert len(archive.member(zipped(bytes(1000)), caps=Caps(member_bytes=1000))) == 1000


@pytest.mark.parametrize("link", ["http://elsewhere.example/x", "file:///etc/passwd", "ftp://x/y", "//x", ""])
def test_the_link_must_be_https(link: str) -> None:
    with pytest.raises(NotTaken, match="not HTTPS"):
        archive._allowed(link, api="https://api.github.com")
    with pytest.raises(NotTaken, match="not HTTPS"):
        archive._allowed(link, api="http://127.0.0.1:1234")


def refused(data: bytes, words: str, **more: Any) -> None:
    with pytest.raises(NotTaken, match=words):
        bundle.decode(data, head_sha=SHA, **more)


def test_a_bundle_comes_back_as_it_was() -> None:
    found = bundle.decode(packed(), head_sha=SHA)
    assert [len(rows) for rows in found.rows.values()] == [6, 6, 0, 0, 0, 0]
    assert found.rows["head_results"] == [json.loads(store.encode(row)) for row in rows_of(10.0)]
    assert found.base_sha == "b" * 40


def test_a_bundle_of_another_commit_is_refused() -> None:
    refused(packed(head_sha=OTHER), "another commit")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[1:], "line 1 is not the header"),
        (lambda rows: rows[:-1], "cut off"),
        (lambda rows: [*rows, rows[-1]], "cut off"),
        (lambda rows: [rows[0] | {"pull": 12}, *rows[1:]], "line 1 is not the header"),
        (lambda rows: [rows[0] | {"base_sha": "main"}, *rows[1:]], "base_sha"),
        (lambda rows: [rows[0] | {"counts": {"head_results": True}}, *rows[1:]], "counts"),
        (lambda rows: [rows[0], rows[1] | {"part": "policy"}, *rows[2:]], "line 2 is not a part"),
        (lambda rows: [rows[0], rows[1] | {"part": ["head_results"]}, *rows[2:]], "line 2 is not a part"),
        (lambda rows: [rows[0], rows[1] | {"text": "<b>"}, *rows[2:]], "line 2 is not a part"),
        (lambda rows: [rows[0], [rows[1]], *rows[2:]], "line 2 is not a part"),
    ],
)
def test_a_bundle_that_is_not_whole_is_refused(change: Callable[[list[Any]], list[Any]], words: str) -> None:
    refused(joined(change(lines(packed()))), words)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("median_us", "fast", "median_us"),
        ("median_us", 1e19, "a number beyond"),
        ("repeat_iters", 10**30, "a number beyond"),
        ("shape_id", "sha1:zz", "shape_id"),
        ("benchmark_status", "great", "benchmark_status"),
        ("provider", "mine", "provider"),
        ("notes", "x" * 4001, "4,001 characters"),
        ("notes", "\ud800", "surrogate"),
        ("args", {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}, "nested deeper"),
        ("args", {str(i): 0 for i in range(20_001)}, "items; at most"),
    ],
)
def test_a_row_that_breaks_its_contract_or_a_cap_is_refused(field: str, value: Any, words: str) -> None:
    rows = lines(packed())
    rows[1]["row"][field] = value
    refused(joined(rows), words)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "1" * 5000, '{"a":1,"a":2}', "[" * 50_000])
def test_only_strict_json_is_read(text: str) -> None:
    raw = packed().splitlines()
    raw[1] = raw[1].replace(b'"median_us":10.0', b'"median_us":' + text.encode())
    refused(b"\n".join(raw) + b"\n", "line 2")


def test_lines_and_their_length_are_capped() -> None:
    refused(packed(), "lines; at most 5", limits=bundle.Limits(lines=5))
    refused(packed(), "bytes; at most 100", limits=bundle.Limits(line_bytes=100))


def test_a_text_that_is_too_long_is_packed_short_and_says_so() -> None:
    row = msgspec.structs.replace(rows_of(10.0)[0], skip_reason="x" * 9000)
    data = bundle.encode({"head_results": [row]}, head_sha=SHA, base_sha=None)
    (found,) = bundle.decode(data, head_sha=SHA).rows["head_results"]
    assert len(found["skip_reason"]) <= 4000
    assert found["skip_reason"].endswith("…(+5,040 characters)")


def test_a_refused_row_is_not_packed_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / store.RESULTS_FILE
    store.write_jsonl(path, rows_of(10.0))
    path.write_text(path.read_text() + '{"run_id": 1}\n')
    assert run(["artifact", "pack", "--head-sha", SHA, "--head", str(path), "--out", str(tmp_path / "out")]) == 2
    assert f"{path}:7: refused" in capsys.readouterr().err
    assert not (tmp_path / "out" / archive.MEMBER).exists()


def test_two_hundred_hostile_artifacts_are_refused_and_none_crashes() -> None:
    from tests.bench.publish_hostile import main

    found = main()
    assert found["accepted"] == found["crashed"] == 0
    assert found["refused"] >= 200
