"""The fast way into the history: it takes the rows that the contract's decoder takes, and refuses what that refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from gate import store
from gate.history import decoding
from gate.model.history import Row
from tests.history import nights
from tests.history.result_lines import MIDDLE, ROWS, compact, encode, read_rows, rows, written


def agree(*paths: Path) -> tuple[int, list[str]]:
    """Both ways read the files alike: every row, and every refusal. Returns the rows and what was refused."""
    blocks, problems = read_rows(paths)
    bulk = [store.decode_bulk(path, Row) for path in paths]
    expected = [row for found, _ in bulk for row in found]
    assert sorted(line for one in blocks for line in one.lines()) == sorted(map(encode, expected))
    assert sum(one.n for one in blocks) == len(expected)
    assert problems == [problem for _, refused in bulk for problem in refused]
    return len(expected), [str(problem) for problem in problems]


def changed(name: str, value: Any) -> Callable[[bytes], bytes]:
    def change(line: bytes) -> bytes:
        return compact({**json.loads(line), name: value})

    return change


def without(name: str) -> Callable[[bytes], bytes]:
    return lambda line: compact({key: value for key, value in json.loads(line).items() if key != name})


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(line: bytes) -> bytes:
        assert old in line
        return line.replace(old, new, 1)

    return change


REFUSED: dict[str, Callable[[bytes], bytes]] = {
    "NaN": changed("median_us", float("nan")),
    "NaN where nothing is kept": changed("blocks_us", [[float("nan")]]),
    "infinite": changed("p10_us", float("-inf")),
    "too large": replaced(b'"median_us":', b'"p90_us":1e999,"median_us":'),
    "a number for the id": changed("shape_id", 7),
    "no id": changed("shape_id", None),
    "the id left out": without("shape_id"),
    "a shared field left out": without("gpu"),
    "a shared field of another kind": changed("gpu", ["AMD"]),
    "a null field of another kind": changed("session_id", 3),
    "an unknown method": changed("timing_method", "stopwatch"),
    "an unknown provider": changed("provider", "cutlass"),
    "an unknown status": changed("benchmark_status", "fine"),
    "a string for a flag": changed("correct", "true"),
    "arguments that are a list": changed("args", [1]),
    "arguments with NaN": changed("args", {"M": float("nan")}),
    "cut off": lambda line: line[:-20],
    "trailing comma": lambda line: line[:-1] + b",}",
    "an unquoted field": replaced(b'"gpu"', b"gpu"),
    "a quote left out": replaced(b'"gpu":"AMD', b'"gpu":AMD'),
    "a line end inside a string": replaced(b"AMD Instinct", b"AMD\nInstinct"),
    "bytes that are no text": replaced(b"AMD Instinct", b"AMD \xff"),
    "half a surrogate": replaced(b"AMD Instinct", b"AMD \\ud800"),
    "nested without end": lambda line: line[:-1] + b',"args":' + b'{"a":' * 5000,
    "no object": lambda line: b"[1]",
    "of something else": lambda line: b"run_id,shape_id",
}


@pytest.mark.parametrize("how", REFUSED)
@pytest.mark.parametrize("place", [0, MIDDLE, ROWS - 1])
def test_a_refused_line_is_named_as_the_decoder_of_the_contract_names_it(tmp_path: Path, how: str, place: int) -> None:
    lines = list(map(compact, rows()))
    lines[place] = REFUSED[how](lines[place])
    path = written(tmp_path, lines)
    count, problems = agree(path)
    assert count == ROWS - 1 and f"{path}:{place + 1}: " in problems[0]


TAKEN: dict[str, Callable[[bytes], bytes]] = {
    "a field twice, the last counts": replaced(b'"gpu":', b'"gpu":"first","gpu":'),
    "a shared field twice": lambda line: line[:-1] + b',"gpu":"AMD Instinct MI300X"}',
    "a null field that has a value": changed("session_id", "s"),
    "a failed row": lambda line: compact(
        {**json.loads(line), "benchmark_status": "failed", "correct": None, "median_us": None, "timing_method": None}
    ),
    "an error's text": changed("correctness_error", 'max |x| = "3",\n\u20ac'),
    "another GPU": changed("gpu", "NVIDIA H200"),
    "no GPU": changed("gpu", None),
    "spaces": lambda line: json.dumps(json.loads(line)).encode(),
    "sorted": lambda line: json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")).encode(),
    "escapes": replaced(b"AMD", b"\\u0041\\u004d\\u0044"),
    "a carriage return": lambda line: line + b"\r",
    "a blank line": lambda line: b"\n  \n" + line,
    "fields that are unknown": changed("from_later", {"gpu": [None]}),
    "shared fields inside the arguments": changed("args", {"gpu": "AMD Instinct MI350X", "%b": None}),
    "no arguments": changed("args", None),
    "arguments left out": without("args"),
    "an optional field left out": without("cache_state"),
    "a whole number for a time": changed("median_us", 3),
    "negative zero": changed("median_us", -0.0),
}


@pytest.mark.parametrize("how", TAKEN)
@pytest.mark.parametrize("each", [1, 2, 7, ROWS])
def test_rows_of_mixed_form_are_taken_as_the_decoder_of_the_contract_takes_them(
    tmp_path: Path, how: str, each: int
) -> None:
    lines = list(map(compact, rows()))
    lines = [TAKEN[how](line) if number % each == 3 % each else line for number, line in enumerate(lines)]
    assert agree(written(tmp_path, lines)) == (ROWS, [])


def test_files_large_and_small_and_without_a_last_line_end_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "CHUNK_BYTES", 1 << 14)
    monkeypatch.setattr(decoding, "PIECE_BYTES", 1 << 11)
    lines = list(map(compact, rows()))
    ends = [0, 1, 5, 300, ROWS]
    paths = [
        written(tmp_path, lines[first:last], f"{last}.jsonl", b"\n" * (last % 2)) for first, last in pairwise(ends)
    ]
    assert agree(*paths, written(tmp_path, [], "empty.jsonl", b"")) == (ROWS, [])
    paths[2].write_bytes(paths[2].read_bytes().replace(b'"graph_slope"', b'"stopwatch"', 7))
    count, problems = agree(*paths)
    assert count == ROWS - 7 and all(f"{paths[2]}:{line}: " in problems[line - 1] for line in range(1, 8))


def test_random_changes_are_told_alike(tmp_path: Path) -> None:
    """One byte of one line turned: both ways take it or both refuse it, with the same words."""
    lines = list(map(compact, rows(60)))
    refused = 0
    for seed in range(300):
        rng = random.Random(seed)
        at, line = rng.randrange(60), bytearray(lines[seed % 60])
        line[rng.randrange(len(line))] = rng.choice(b'"\\{}[],:0123456789eE.-+ ntf\x00\x7f\xc3')
        _, problems = agree(written(tmp_path, [*lines[:at], bytes(line), *lines[at:]]))
        refused += bool(problems)
    assert 100 < refused < 300


def test_a_bad_row_in_the_middle_of_a_million_is_named_with_file_and_line(tmp_path: Path) -> None:
    good = compact({name: getattr(nights.row(0, 0, "flydsl", None), name) for name in decoding._REQUIRED})
    half = (good + b"\n") * 500_000
    path = tmp_path / store.RESULTS_FILE
    path.write_bytes(half + REFUSED["an unknown status"](good) + b"\n" + half)
    _, (problem,) = read_rows([path])
    assert (problem.file, problem.line) == (str(path), 500_001)
    assert "Invalid enum value 'fine'" in problem.what
