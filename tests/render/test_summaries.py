"""benchmark_summary.md, coverage_matrix.md and weighted_summary.md: what they say, whole tables, nothing hostile."""

from __future__ import annotations

import re

import msgspec
import pytest

from gate.model.decision import Decision, Geomean, Standing
from gate.model.report import HostCost, OpCover, OpTally, OpWeight, Rollup, RowPull, ShapeCover, Standoff
from gate.render import rows, summaries
from tests.render.examples import BLOCKED, decision, row, slower
from tests.render.github import NEVER, OURS, seen
from tests.render.situations import HOSTILE, SITUATIONS

TEXTS = (summaries.benchmark_summary, summaries.coverage_matrix, summaries.weighted_summary)


def rolled(each: Decision, *, name: str = "aiter") -> Rollup:
    """A roll-up that fits a decision over rmsnorm."""
    ops = sorted({found.op_type for found in each.rows}) or ["rmsnorm"]
    half = Geomean(vs_best=0.5, weighted=0.25, n=3)
    providers = ("flydsl", name)
    shapes = tuple(
        ShapeCover(shape_id=found.shape_id, states=("ok", "missing"), times_us=(5.0, None)) for found in each.rows
    )
    tally = {"rows": 8, "ahead": 1, "level": 2, "behind": 3}
    return Rollup(
        standoffs=tuple(Standoff(op_type=op, baseline=name, geomean=half, unmatched=2, **tally) for op in ops),
        ops=tuple(OpTally(op_type=op, rivalled=half, classes={"ok": 8}, statuses={"ok": 8}, **tally) for op in ops),
        weights=tuple(
            OpWeight(
                op_type=op,
                rows=8,
                weighted_rows=4,
                standing_rows=3,
                covered=0.75,
                geomean=half,
                pulls=tuple(RowPull(shape_id=s.shape_id, share=0.1, speedup=0.5, factor=0.933) for s in each.rows[:2]),
            )
            for op in ops
        ),
        host=tuple(
            HostCost(op_type=op, provider=name, n=3, kernel_us=5.0, eager_us=25.0, host_us=20.0, eager_vs_candidate=2.0)
            for op in ops
        ),
        covers=tuple(
            OpCover(
                op_type=op,
                candidate="flydsl",
                providers=providers,
                off={"hipblaslt": name},
                shapes=shapes,
                counts={"flydsl": {"ok": len(shapes)}, name: {"missing": len(shapes)}},
            )
            for op in ops[:1]
        ),
    )


@pytest.mark.parametrize("make", TEXTS)
@pytest.mark.parametrize("name", SITUATIONS)
def test_every_text_is_whole_markdown_of_our_own_elements(name: str, make) -> None:  # type: ignore[no-untyped-def]
    each = SITUATIONS[name]()
    for rollup in (rolled(each, name=HOSTILE[0]), Rollup()):
        text = make(each, rollup)
        found = seen(text)
        assert {tag.removeprefix("/") for tag in found.tags} <= OURS
        assert found.linked() == [] and found.comments == []
        assert all(found.tags.count(tag) == found.tags.count(f"/{tag}") for tag in OURS - {"br"})
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({line.count("|") for line in table.splitlines()}) == 1
            assert re.match(r"\|(-+:?\|)+$", table.splitlines()[1])  # A table, not lines of text with pipes.
        assert name == "hostile_names" or not NEVER.findall(text)


def test_the_benchmark_summary_says_each_figure() -> None:
    far = row(6, speedup_vs_best=0.62, classification="implementation_gap", evidence="half the bandwidth")
    broken = row(7, status="failed", verdict="newly_failed", detail="HIP error 719", speedup_vs_best=None)
    each = decision([*(row(index) for index in range(6)), far, broken], **BLOCKED)
    text = summaries.benchmark_summary(each, rolled(each))
    spread = "1&nbsp;/&nbsp;2&nbsp;/&nbsp;3"
    assert f"| <code>rmsnorm</code> | 8&nbsp;of&nbsp;8 | 1.04x | 1.02x | 0.50x&nbsp;over&nbsp;3 | {spread} |" in text
    assert "| <code>rmsnorm</code> | <code>aiter</code> | 3&nbsp;of&nbsp;8 | 0.50x | 0.25x |" in text
    assert "2 rows time more work than the candidate" in text
    assert "| <code>decode</code> | 4 | 1.05x | no weights | 1.00x |" in text
    assert "Furthest behind the best baseline: 1" in text
    assert re.search(r"0\.62x&nbsp;of&nbsp;aiter .*the implementation is behind .*half the bandwidth", text)
    assert "| <code>rmsnorm</code> | <code>aiter</code> | 3 | 5.00 | 25.00 | 20.00 | 2.00x |" in text
    assert "Hard failures: 1" in text and "HIP error 719" in text
    assert "Decision: blocked" in text
    assert "AMD Instinct MI350X" in text and "gate judge --ledger" in text


def test_the_furthest_rows_come_first_and_the_rest_is_counted() -> None:
    each = decision([row(index, speedup_vs_best=0.5 + index / 50) for index in range(50)])
    text = summaries.benchmark_summary(each, rolled(each))
    ahead, behind = text.split("Furthest behind the best baseline: 25")
    assert re.findall(r"(\d\.\d\dx)&nbsp;of&nbsp;aiter", ahead)[:3] == ["1.48x", "1.46x", "1.44x"]
    assert re.findall(r"(\d\.\d\dx)&nbsp;of&nbsp;aiter", behind)[:3] == ["0.50x", "0.52x", "0.54x"]
    assert text.count("15 of 25 are not listed here") == 2


def test_the_coverage_grid_shows_times_states_and_reasons() -> None:
    each = decision([row(index) for index in range(3)])
    text = summaries.coverage_matrix(each, rolled(each))
    assert text.count("| 5.00&nbsp;µs | **missing** |") == 3
    assert "| Provider | ok | missing |" in text
    assert "| <code>flydsl</code> | 3 | 0 |" in text
    assert "- <code>hipblaslt</code>: aiter" in text


def test_a_grid_too_long_shows_the_gaps_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "MOST_SHAPES", 2)
    each = decision([row(index) for index in range(5)])
    rollup = rolled(each)
    shapes = list(rollup.covers[0].shapes)
    for index in (0, 1, 3):
        shapes[index] = msgspec.structs.replace(shapes[index], states=("ok", "ok"))
    cover = msgspec.structs.replace(rollup.covers[0], shapes=tuple(shapes))
    text = summaries.coverage_matrix(each, msgspec.structs.replace(rollup, covers=(cover,)))
    assert text.count("**missing** |") == 2
    assert "3 more shapes" in text


def test_the_weighted_summary_says_what_is_covered_and_what_pulls() -> None:
    standings = (Standing(by="op", name="rmsnorm", rows=8, geomean=Geomean(vs_best=0.88, weighted=0.82, n=8)),)
    each = decision([row(index) for index in range(8)], standings=standings)
    text = summaries.weighted_summary(each, rolled(each))
    assert "| <code>rmsnorm</code> | 4 of 8 | 3 | 75% | 0.88x | 0.50x | 0.25x |" in text
    assert text.count("| 10% | 1.04x of aiter | 0.933 |") == 2
    assert "weights come from a serving trace" in summaries.weighted_summary(each, Rollup())


def test_the_arguments_that_tell_shapes_apart_come_first() -> None:
    shared = {f"arg{index}": 1 for index in range(8)}
    found = rows.arranged(decision([row(index, args={**shared, "seq_len": index, "M": 7}) for index in range(3)]))
    assert [next(iter(each.args)) for each in found.rows] == ["seq_len"] * 3
    assert [each.args["seq_len"] for each in found.rows] == [0, 1, 2]
    assert found.rows[0].args == {**shared, "seq_len": 0, "M": 7}


def test_a_decision_with_few_arguments_stays_as_it_is() -> None:
    each = decision([slower(1, 1.2), row(2)])
    assert rows.arranged(each) is each
