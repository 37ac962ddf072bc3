"""The HTML report: one file that loads nothing, holds every row, and lets nothing hostile through."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import msgspec
import pytest

from gate.model.report import NoisePoint, Rollup, Roof, RoofPoint, Trend
from gate.render import table, words
from tests.render.examples import BLOCKED, codegen, compiled, decision, row, side, slower
from tests.render.situations import SITUATIONS
from tests.render.test_summaries import rolled

pytest.importorskip("matplotlib")
from gate.render import html, plot_style

VOID = frozenset({"meta", "br", "input", "link", "img", "hr"})


class Page(HTMLParser):
    """The elements of a page, whether they nest, and what it would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.data: dict[str, str] = {}
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.data.setdefault(self.open[-1], "")
            self.data[f"{self.open[-1]}{len(self.data)}"] = data
        else:
            self.text.append(data)


def made(each, rollup: Rollup | None = None, history: tuple[Trend, ...] = ()) -> str:  # type: ignore[no-untyped-def]
    found = rolled(each) if rollup is None else rollup
    return html.page(each, found, html.pictures(each, found, history))


def rows_in(text: str) -> dict:  # type: ignore[type-arg]
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))


PAGES = ("pass_tune", "block_many_kinds", "no_verdict", "codegen_fail", "hostile_names", "many_rows_1500")


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_well_formed_and_loads_nothing(name: str) -> None:
    text = made(SITUATIONS[name]())
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert not {"link", "img", "iframe", "object", "embed", "image", "foreignobject"} & set(page.tags)
    for key, value in page.attributes:
        assert not key.startswith("on")
        assert key not in ("src", "srcset", "action", "formaction")
        assert not key.endswith("href") or value.startswith("#")
    assert not re.search(r"url\((?!#)", text.split("<body>")[0] + "".join(value for _, value in page.attributes))
    assert page.tags.count("script") == 2


def test_the_policy_of_the_page_allows_its_own_script_only() -> None:
    text = made(SITUATIONS["pass_promote"]())
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_hostile_names_stay_text() -> None:
    text = made(SITUATIONS["hostile_names"]())
    assert "<img" not in text and "onerror=alert" in text
    assert not re.search(r"[\u202e\u200b\x00-\x08\x0e-\x1f]", text)
    shapes = [line[1] for line in rows_in(text)["rows"]]
    assert any("<img src=x onerror=alert(1)>" in shape for shape in shapes)  # As data it is whole.
    assert "</script" not in re.sub(r"</script>\s*(?=<script>|</body>)", "", text)


@pytest.mark.parametrize("bad", ["</script><script>alert(1)</script>", "<!--", "\u2028", "&lt;", "]]>", "${x}", "`"])
def test_data_cannot_end_its_element(bad: str) -> None:
    data = table.as_json(table.table(decision([slower(0, 1.2, detail=bad)], **BLOCKED)))
    assert not set("<>&\u2028\u2029") & set(data)
    assert any(bad.replace("\u2028", "⏎") in word for word in json.loads(data)["words"])


def test_every_row_is_in_the_table_worst_first() -> None:
    each = SITUATIONS["block_many_kinds"]()
    data = rows_in(made(each))
    results = [data["words"][line[0]] for line in data["rows"]]
    assert len(results) == data["total"] == len(each.rows)
    order = list(words.VERDICT_WORDS.values())
    assert results == sorted(results, key=order.index)
    assert {line[12] for line in data["rows"]} == {found.shape_id for found in each.rows}


def test_a_large_run_keeps_its_worst_rows_and_counts_the_rest() -> None:
    each = decision([row(index) for index in range(50)] + [slower(60, 1.2), slower(61, 1.5)], **BLOCKED)
    data = table.table(each, most=10)
    assert (len(data.rows), data.total) == (10, 52)
    assert [line[5] for line in data.rows[:2]] == [1.5, 1.2]
    assert data.rows == table.table(each, most=60).rows[:10]


def test_more_points_than_can_be_told_apart_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from gate.render import plots, plots_wide

    for module in (plots, plots_wide):
        monkeypatch.setattr(module, "MOST_POINTS", 5)
    each = decision([row(index) for index in range(40)])
    many = Rollup(
        roofline=tuple(RoofPoint(op_type="x", flop_per_byte=1.0 + i, tflops=1.0 + i) for i in range(20)),
        noise=tuple(NoisePoint(op_type="x", time_us=5.0 + i, spread=1.0 + i / 50) for i in range(20)),
        roof=Roof(gpu="AMD Instinct MI350X", tb_per_s=8.0, tflops_16=2310.0),
    )
    drawn = {plot.name: plot for plot in html.pictures(each, many, ())}
    for name in ("base-head", "roofline", "noise"):
        assert drawn[name].figure is not None
        picture = plot_style.svg(drawn[name])
        assert "PolyCollection" in picture
        assert "<image" not in picture and "mathdefault" not in picture


def test_a_plot_without_data_says_why_and_is_not_drawn() -> None:
    each = SITUATIONS["no_verdict"]()
    drawn = html.pictures(each, Rollup(), ())
    assert [plot.name for plot in drawn if plot.figure is not None] == []
    text = html.page(each, Rollup(), drawn)
    assert "No results were given." in text and "No history was given." in text
    assert "<svg" not in text


def test_each_plot_is_named_for_a_screen_reader_and_takes_the_colours_of_the_page() -> None:
    text = made(SITUATIONS["block_many_kinds"](), history=(Trend(commit="a", series="rmsnorm", speedup=1.1),))
    names = re.findall(r'<svg role="img" aria-labelledby="([^"]*)"', text)
    assert len(names) == text.count("<svg") > 3
    assert all(f'id="{name}"' in text for name in names)
    pictures = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "var(--ink)" in pictures and "var(--bad)" in pictures
    assert not set(plot_style.VARIABLES) & set(re.findall(r"#[0-9a-f]{6}", pictures))


def test_equal_runs_give_equal_bytes() -> None:
    assert made(SITUATIONS["block_many_kinds"]()) == made(SITUATIONS["block_many_kinds"]())


def test_a_dollar_sign_in_a_name_is_no_formula() -> None:
    each = decision([slower(0, 1.2, model="$x^2$ \\frac{1")], **BLOCKED)
    (plot,) = [plot for plot in html.pictures(each, Rollup(), ()) if plot.name == "intervals"]
    assert "$x^2$ \\frac{1" in plot_style.svg(plot)


def test_the_machine_code_table_folds_kernels_that_changed_alike() -> None:
    text = made(SITUATIONS["codegen_alike"](), Rollup())
    assert "and 29 more that changed alike" in text
    assert {f"rmsnorm/bf16/N={128 * (index + 1)}" for index in range(40)} <= set(
        re.findall(r"rmsnorm/bf16/N=\d+", text)
    )
    assert "This run covers 40 of 493 frozen shapes" in text
    columns = {key: (title, kind) for key, title, kind in rows_in(text)["columns"]}
    assert columns["base"] == ("Base instructions", "count")
    assert columns["speedup"][1] == "hidden"


def test_a_control_never_measured_is_not_steady() -> None:
    each = SITUATIONS["pass_promote"]()
    bare = msgspec.structs.replace(each, controls=(msgspec.structs.replace(each.controls[0], n=0),))
    assert "steady" in html.page(each, Rollup(), ())
    assert "steady" not in html.page(bare, Rollup(), ())


def test_a_row_with_one_side_has_no_instructions_to_compare() -> None:
    rows = [compiled(0, "new", None, side(45, 581, 8)), compiled(4, "warn", side(1, 100, 8), side(1, 110, 8))]
    data = rows_in(made(codegen(rows), Rollup()))
    assert sorted((line[3], line[4], line[5]) for line in data["rows"] if line[3] is not None) == [(100, 110, 1.1)]


def test_a_plot_can_be_a_file() -> None:
    (plot, *_) = html.pictures(SITUATIONS["pass_promote"](), Rollup(), ())
    assert plot_style.svg(plot).startswith("<svg") and "var(" not in plot_style.svg(plot)
    assert plot_style.png(plot).startswith(b"\x89PNG")
