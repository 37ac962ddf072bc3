"""The page of a history: harmless, whole in one file, and plain about what it could not read."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")
pytest.importorskip("ruptures")

from tests.commands.history_keeper import Keeper
from tests.history import nights

HOSTILE = "<script>alert(1)</script>\x1b[31m\n::error::x \u202e$x$"


def test_text_from_rows_stays_text_on_the_page_and_in_the_terminal(keeper: Keeper) -> None:
    def times(number: int, shape: int, provider: str) -> float:
        return 10.0 if number < 30 else 12.0

    keeper.store.mkdir()
    for number in range(40):
        fields = {"gpu": HOSTILE, "op_type": HOSTILE, "dtype": HOSTILE, "candidate_commit": HOSTILE}
        nights.add(keeper.store, number, [nights.row(number, 0, p, times(number, 0, p), **fields) for p in ("flydsl",)])
    assert keeper.call("trend", "--all") == 0
    assert "\x1b" not in keeper.out and "\u202e" not in keeper.out
    assert not any(line.lstrip().startswith("::") for line in keeper.out.splitlines())
    out = keeper.folder / "page.html"
    assert keeper.call("page", "--out", str(out)) == 0
    text = out.read_text()
    assert "<script" not in text and "\x1b" not in text and "\u202e" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_page_is_one_file_that_loads_nothing_and_is_the_same_each_time(keeper: Keeper) -> None:
    keeper.nights(40, step_at=30)
    nights.fill(keeper.store, range(40, 52), cache_state="hot")
    out = keeper.folder / "page.html"
    assert keeper.call("page", "--out", str(out)) == 0
    text = out.read_text()
    assert "1 slower and 0 faster of 18 series" in text and "night" not in text.lower().split("<table")[0]
    assert "cache state changed from cold_hbm to hot (9 series)" in text
    assert "default-src 'none'" in text
    loaded = re.findall(r"""(?:src|href)=["'](?!#)([^"']*)|url\((?!#)([^)]*)\)|@import""", text)
    assert loaded == []
    assert text.count("<svg") == 3, "the op in two cache states, and the series that changed"
    assert keeper.call("page", "--out", str(out)) == 0
    assert out.read_text() == text


def test_the_page_says_which_files_it_could_not_read(keeper: Keeper) -> None:
    keeper.nights(12)
    victim = sorted(keeper.store.rglob("*.parquet"))[0]
    victim.write_bytes(b"PAR1")
    out = keeper.folder / "page.html"
    assert keeper.call("page", "--out", str(out)) == 2
    assert "Files that could not be read" in out.read_text() and victim.name in out.read_text()
