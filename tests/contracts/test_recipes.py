"""The recipes of FlyDSL's kernels against a checkout: modules, builders and what the launchers ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gate.contracts.recipes import check_recipes

SHAPES: list[tuple[str, str, dict[str, Any]]] = [("softmax", "bf16", {"M": 4, "N": 128}), ("quant", "bf16", {"M": 1})]
GOOD = """
def build_softmax_module(M, N, dtype_str="f32"):
    @jit
    def launch_softmax(A, C, m_in, stream=None): ...

    return launch_softmax
"""


def findings(root: Path, text: str, name: str = "kernels/norm/softmax_kernel.py") -> list[tuple[str, str, str]]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return [(finding.state, finding.what, finding.where) for finding in check_recipes(SHAPES, root)]


def test_a_kernel_as_it_is_launched(tmp_path: Path) -> None:
    good = ("ok", "kernels.norm.softmax_kernel:build_softmax_module", "kernels/norm/softmax_kernel.py:2")
    assert findings(tmp_path, GOOD) == [good]


def test_an_older_place_is_found_by_the_files_name(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD, "kernels/softmax_kernel.py")[0][2] == "kernels/softmax_kernel.py:2"
    found = findings(tmp_path, GOOD, "kernels/again/softmax_kernel.py")
    assert found == [("missing_module", "there is no kernels.norm.softmax_kernel", "kernels/norm/softmax_kernel")]


@pytest.mark.parametrize(
    ("old", "new", "state", "what"),
    [
        ("build_softmax_module", "make", "missing_function", "has no build_softmax_module"),
        ("M, N, dtype_str", "M, columns, dtype_str", "unknown_argument", "build_softmax_module takes no N"),
        ("M, N, ", "M, N, mode, ", "new_required_argument", "build_softmax_module asks for mode"),
        ("A, C, m_in", "A, C, m_in, scale, more", "new_required_argument", "launch_softmax asks for scale, more"),
    ],
)
def test_each_drift_is_named(tmp_path: Path, old: str, new: str, state: str, what: str) -> None:
    found = findings(tmp_path, GOOD.replace(old, new))
    assert any(one[0] == state and what in one[1] for one in found), found


def test_of_several_launchers_the_nearest_counts(tmp_path: Path) -> None:
    other = GOOD.replace("    @jit", "    def launch_other(A, unknown_one, stream): ...\n\n    @jit")
    assert findings(tmp_path, other)[0][0] == "ok"
    helper = GOOD.replace("    return launch_softmax", "") + "\n"
    inner = helper.replace('def build_softmax_module(M, N, dtype_str="f32"):', "def _build(N):")
    outer = 'def build_softmax_module(M, N, dtype_str="f32"):\n    return _build(N)\n'
    assert findings(tmp_path, inner + outer)[0][0] == "ok"
    assert findings(tmp_path, inner.replace("m_in", "rows_now") + outer)[0][0] == "new_required_argument"
