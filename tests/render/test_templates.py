"""The templates themselves: no arithmetic, no way round the filter, no name that is not there."""

from __future__ import annotations

import jinja2
import pytest
from jinja2 import nodes

from gate.render.escape import Safe
from gate.render.page import engine, finalize
from gate.resources import templates_dir

FORBIDDEN = (
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.Neg, nodes.Concat),
    *(nodes.Filter, nodes.Call, nodes.Macro, nodes.MarkSafe, nodes.ScopedEvalContextModifier),
)
TEMPLATES = sorted(path.name for path in templates_dir().glob("*.md.j2"))


def test_there_are_templates() -> None:
    assert {"comment.md.j2", "step_summary.md.j2", "regression_summary.md.j2"} <= set(TEMPLATES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_only_arrange(name: str) -> None:
    tree = engine().parse((templates_dir() / name).read_text(encoding="utf-8"))
    assert [type(node).__name__ for node in tree.find_all(FORBIDDEN)] == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_summary_is_followed_by_a_blank_line(name: str) -> None:
    lines = (templates_dir() / name).read_text(encoding="utf-8").splitlines()
    for at, line in enumerate(lines):
        assert "<summary>" not in line or (line.endswith("</summary>") and lines[at + 1] == "")


@pytest.mark.parametrize("source", ["{{ absent }}", "{{ row.absent }}", "{% for x in absent %}{% endfor %}"])
def test_an_undefined_name_is_an_error(source: str) -> None:
    with pytest.raises(jinja2.UndefinedError):
        engine().from_string(source).render(row=object())


def test_what_is_interpolated_is_escaped_by_default() -> None:
    text = (
        engine()
        .from_string("**{{ a }}** {{ b }} {{ c ~ a }} {{ '<i>' }}")
        .render(a="<@x>", b=Safe("<b>"), c=Safe("<u>"))
    )
    assert text == "**&#60;&#64;&#8288;x&#62;** <b> &#60;u&#62;&#60;&#64;&#8288;x&#62; &#60;i&#62;"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not measured"),
        (True, "yes"),
        (1500, "1,500"),
        (0.5, "0.5"),
        (0.1 / 3, "0.03333"),
        (123456.7, "123,457"),
        (float("nan"), "not a number"),
        (float("-inf"), "not a number"),
        ("a|b", "a&#124;b"),
        ([1], "&#91;1&#93;"),
        (Safe("a|b"), "a|b"),
    ],
)
def test_finalize(value: object, text: str) -> None:
    assert finalize(value) == text
