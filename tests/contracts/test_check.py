"""Calls against a checkout's source: found through re-exports, and each way of drifting named with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.contracts.calls import Call
from gate.contracts.check import check_calls
from gate.contracts.source import Checkout

FILES = {
    "pkg/__init__.py": "from .ops import *\nfrom .other import renamed as shown\n",
    "pkg/ops.py": (
        "try:\n    import fast\nexcept ImportError:\n    fast = None\n\n\n"
        "@compiled('m')\ndef softmax(x, out=None, *, eps=1e-5): ...\n\n\nclass Kind: ...\n\n\n"
        "def anything(a, **more): ...\n\n\nmade = anything\n"
    ),
    "pkg/other.py": "def renamed(a, b): ...\n",
    "pkg/broken.py": "def f(:\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def findings(root: Path, *places: str, arguments: tuple[str, ...] | None = ("x",)) -> list[tuple[str, str, str]]:
    call = Call(provider="p", op="o", places=places, arguments=arguments, file="p.py", line=7)
    return [(finding.state, finding.what, finding.where) for finding in check_calls([call], root)]


def test_a_call_that_fits_is_ok_with_its_place(root: Path) -> None:
    assert findings(root, "pkg.ops:softmax") == [("ok", "pkg.ops:softmax", "pkg/ops.py:8")]
    assert findings(root, "pkg.ops:softmax", arguments=("x", "eps", "out"))[0][0] == "ok"
    assert findings(root, "pkg:softmax")[0] == ("ok", "pkg:softmax", "pkg/ops.py:8")
    assert findings(root, "pkg:shown", arguments=("a", "b"))[0] == ("ok", "pkg:shown", "pkg/other.py:1")
    assert findings(root, "pkg.ops:Kind", arguments=None) == [("ok", "pkg.ops:Kind", "pkg/ops.py:11")]
    assert findings(root, "pkg.ops:made", arguments=("whatever",))[0][0] == "ok"
    assert findings(root, "pkg.ops:anything", arguments=("a", "b"))[0][0] == "ok"


def test_a_call_at_an_older_place_has_moved(root: Path) -> None:
    assert findings(root, "pkg.newest:softmax", "pkg.ops:softmax") == [("moved", "pkg.ops:softmax", "pkg/ops.py:8")]


@pytest.mark.parametrize(
    ("place", "arguments", "expected"),
    [
        ("pkg.gone:f", ("x",), ("missing_module", "there is no pkg.gone:f", "pkg/gone")),
        (
            "pkg.ops:softmx",
            ("x",),
            ("missing_function", "pkg.ops has no softmx; the nearest name is softmax", "pkg/ops.py"),
        ),
        ("pkg.broken:f", ("x",), ("missing_module", "pkg.broken cannot be parsed: invalid syntax", "<unknown>")),
        (
            "pkg.ops:softmax",
            ("x", "epsilon"),
            ("unknown_argument", "pkg.ops:softmax takes no epsilon; renamed to eps?", "pkg/ops.py:8"),
        ),
        ("pkg.other:renamed", ("a",), ("new_required_argument", "pkg.other:renamed asks for b", "pkg/other.py:1")),
    ],
)
def test_each_drift_is_named(root: Path, place: str, arguments: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert findings(root, place, arguments=arguments) == [expected]


def test_a_renamed_argument_is_two_drifts(root: Path) -> None:
    found = findings(root, "pkg.ops:softmax", arguments=("inputs",))
    assert [state for state, _, _ in found] == ["unknown_argument", "new_required_argument"]


def test_re_exports_that_run_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from b import f\n")
    (tmp_path / "b.py").write_text("from a import f\n")
    assert Checkout(tmp_path).find("a", "f") is None
