"""What makes two trees equal code, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.commands.bisect_code import of_machine, of_sources
from tests.factory import make_shape

FILES = {"k.py": "import a\n\nX = 1\n", "a.py": "Y = 2\n", "native/k.cu": "int x;\n", "README.md": "words\n"}


def signature(folder: Path, changes: dict[str, str], within: tuple[str, ...] = ("",)) -> str:
    files = {**FILES, **changes}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return of_sources(folder, dict.fromkeys([*files, ".github/w.yml"], "100644 blob 0"), within)[0]


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"k.py": "# why\nimport a  # so\n\n\nX = (1)\n"}, True),
        ({"README.md": "other words\n"}, True),
        ({"k.py": "import a\n\nX = 3\n"}, False),
        ({"k.py": 'import a\n\nX = "1"\n'}, False),
        ({"native/k.cu": "int x; // more\n"}, False),
        ({"k.py": "import a\nX = = 1\n"}, False),
        ({"new.py": ""}, False),
    ],
)
def test_sources(tmp_path: Path, changes: dict[str, str], same: bool) -> None:
    assert (signature(tmp_path / "one", {}) == signature(tmp_path / "two", changes)) is same


def test_only_what_is_imported_from_counts(tmp_path: Path) -> None:
    one = signature(tmp_path / "one", {"src/k.py": "X = 1\n"}, ("src",))
    two = signature(tmp_path / "two", {"src/k.py": "X = 1\n", "k.py": "X = 9\n"}, ("src",))
    three = signature(tmp_path / "three", {"src/k.py": "X = 2\n"}, ("src",))
    assert one == two != three


def test_a_shape_that_has_no_machine_code_says_why() -> None:
    limits = {"arch": "gfx950", "jobs": 1, "timeout": 10.0, "installed_torch": False}
    found, words = of_machine(make_shape(op_type="nothing"), checkout=None, python="python", limits=limits)
    assert (found, words.startswith("no kernel for nothing")) == ("", True)
