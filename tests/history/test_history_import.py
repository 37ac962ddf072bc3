"""The fast way into the history: it takes the rows that the contract's decoder takes, and refuses what that refuses."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")

from gate import store  # noqa: E402
from gate.history import append, decoding, files, query, table  # noqa: E402
from gate.history.block import Block  # noqa: E402
from gate.model.history import Row  # noqa: E402
from gate.model.problem import Problem  # noqa: E402
from tests.history import nights  # noqa: E402

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


def test_the_key_is_the_hash_of_the_rows_as_records_and_the_columns_give_them_back(tmp_path: Path) -> None:
    made = rows()
    made[5]["correctness_error"] = "a,b"
    blocks, _ = read_rows([written(tmp_path, list(map(compact, made)))])
    records = [msgspec.convert({name: one[name] for name in Row.__struct_fields__}, Row) for one in made]
    lines = sorted(map(encode, records))
    key = hashlib.sha256(f"head {len(lines)}\n".encode() + b"\n".join(lines)).hexdigest()
    assert table.key_of({"head": blocks}) == table.key_of({"head": records}) == key
    added = append.add({"head": blocks}, store=tmp_path / "s", name="n", at=nights.FIRST, have={})
    assert added.file is not None and added.run.key == key
    found = table.runs_in(pq.read_table(added.file, schema=table.schema(), partitioning=None))
    assert sorted(map(encode, found[key]["head"])) == lines


def test_the_same_rows_in_another_form_and_order_are_the_same_run(tmp_path: Path) -> None:
    made = rows()
    one, _ = read_rows([written(tmp_path, list(map(compact, made)), "one.jsonl")])
    two, _ = read_rows([written(tmp_path, [json.dumps(row).encode() for row in made[::-1]], "two.jsonl")])
    first = append.add({"head": one}, store=tmp_path / "s", name="one", at=nights.FIRST, have={})
    again = append.add(
        {"head": two}, store=tmp_path / "s", name="two", at=nights.FIRST, have=append.known(tmp_path / "s")
    )
    assert first.file is not None and again.file is None and again.run == first.run


def test_a_file_of_the_earlier_form_is_read_beside_new_ones(tmp_path: Path) -> None:
    """Every column as it is, those that are null in all rows too."""
    nights.fill(tmp_path, range(2))
    old = files.listing(tmp_path).files[0].path
    whole = pq.read_table(old, schema=table.schema(), partitioning=None)
    meta = pq.read_schema(old).metadata
    assert "eager_median_us" not in pq.read_schema(old).names
    before = contents(tmp_path)
    pq.write_table(whole.replace_schema_metadata(meta), old, compression="zstd")
    digest = hashlib.sha256(old.read_bytes()).hexdigest()
    files.sum_of(old).write_text(f"{digest}  {old.name}\n")
    assert "eager_median_us" in pq.read_schema(old).names
    assert contents(tmp_path) == before
    assert append.check(files.listing(tmp_path).files) == []
    assert nights.add(tmp_path, 0, nights.night(0, lambda *_: 10.0)).file is None, "its run is known"
    append.compact(tmp_path, least=2)
    assert contents(tmp_path) == before and append.check(files.listing(tmp_path).files) == []


def test_a_run_is_known_by_its_files_name_and_by_what_is_inside_where_it_is_named_otherwise(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(4))
    listed = files.listing(tmp_path).runs
    keys = list(listed)
    paths = [file.path for file in files.listing(tmp_path).files]
    for path, name in ((paths[0], "renamed.parquet"), (paths[1], f"20200101T000000-{'0' * 16}.parquet")):
        path.rename(path.with_name(name))
    paths[2].write_bytes(b"PAR1")
    found = append.Known(tmp_path)
    assert [key in found for key in keys] == [True, False, False, True]
    assert found[keys[3]] == listed[keys[3]] and found[keys[0]] == listed[keys[0]]
    assert set(append.known(tmp_path)) == {keys[0], keys[1], keys[3]}, "all files are opened for a list"


def contents(folder: Path) -> list[tuple[Any, ...]]:
    names = ", ".join(table.schema().names)
    found, _ = query.asked(
        files.listing(folder),
        lambda reader, _: reader.rows(f"SELECT {names} FROM history ORDER BY {', '.join(table.ORDER)}"),
    )
    return found
