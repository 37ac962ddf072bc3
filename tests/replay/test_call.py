"""A call by place and argument names: found where it lies, handed over as the signature asks, refused with words."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from gate.replay.call import call, find
from gate.replay.provider import NoKernel


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package outside the gate with functions of every kind of signature."""

    def plain(a: Any, b: Any, c: int = 3, *, d: int = 4) -> Any:
        return a, b, c, d

    def anything(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    for name in ("outside_package", "outside_package.new"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["outside_package.new"].__dict__.update(plain=plain, anything=anything, Kind=dict, NUMBER=7)
    yield


def test_arguments_go_by_position_where_the_signature_shows_them() -> None:
    made = call("outside_package.new:plain", b=2, a=1, d=9)
    assert made.args == (1, 2, 3) and made.keywords == {"d": 9} and made() == (1, 2, 3, 9)
    assert call("outside_package.new:plain", a=1, b=2).args == (1, 2)
    assert call("outside_package.new:anything", a=1)() == ((), {"a": 1})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"a": 1}, "missing a required argument: 'b'"), ({"a": 1, "b": 2, "e": 3}, "unexpected keyword argument 'e'")],
)
def test_a_signature_that_does_not_fit_is_told(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(NoKernel, match=r"API changed: outside_package.new:plain\(a.*" + words):
        call("outside_package.new:plain", **arguments)


def test_the_first_place_that_exists_counts() -> None:
    older = ("outside_package.newest:plain", "nowhere_at_all:plain", "outside_package.new:plain")
    assert call(*older, a=1, b=2)() == (1, 2, 3, 4)
    assert find("outside_package.new:Kind") is dict
    with pytest.raises(NoKernel, match=r"there is no outside_package.newest:plain or nowhere_at_all:plain"):
        find(*older[:2])
    with pytest.raises(NoKernel, match=r"there is no outside_package.new:gone"):
        find("outside_package.new:gone")


def test_a_package_that_lacks_something_itself_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "broken_outside.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        find("broken_outside:f")
