"""Managed environments for wheels: which versions a range means, what an installer's refusal becomes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gate.codegen import wheels
from gate.codegen.wheels import WheelError, between

VERSIONS = ("0.3.2", "0.4.0.dev974", "0.4.0.dev976", "0.4.0", "0.4.1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.4.0.dev974..0.4.0", ("0.4.0.dev974", "0.4.0.dev976", "0.4.0")),
        ("0.3.2..0.4.1", VERSIONS),
        ("0.4.1, 0.3.2", ("0.4.1", "0.3.2")),
    ],
)
def test_a_range_takes_every_version_between(text: str, expected: tuple[str, ...]) -> None:
    assert between(text, VERSIONS) == expected


@pytest.mark.parametrize(("text", "words"), [("0.3.2..9.9", "no flydsl 9.9"), ("0.4.1..0.3.2", "not older")])
def test_a_range_that_makes_no_sense(text: str, words: str) -> None:
    with pytest.raises(WheelError, match=words):
        between(text, VERSIONS)


def test_published_versions_come_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "flydsl (0.4.1)\nAvailable versions: 0.4.1, 0.4.0, 0.3.2\n  INSTALLED: 0.4.1\n"
    monkeypatch.setattr(wheels, "_run", lambda command: answer)
    assert wheels.published() == ("0.3.2", "0.4.0", "0.4.1")
    monkeypatch.setattr(wheels, "_run", lambda command: "nothing\n")
    with pytest.raises(WheelError, match="names no versions"):
        wheels.published()


def test_an_environment_is_made_once_and_a_failed_one_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(command: list[str]) -> str:
        calls.append(command)
        if "venv" in command:
            (Path(command[-1]) / "bin").mkdir(parents=True)
        elif "flydsl==6.6" in command:
            raise WheelError("No matching distribution found for flydsl==6.6")
        return ""

    monkeypatch.setattr(wheels, "_run", run)
    first = wheels.environment("0.4.0", tmp_path)
    again = wheels.environment("0.4.0", tmp_path)
    assert first == again and Path(first).parent.parent.name.startswith("flydsl-0.4.0-py") and len(calls) == 2
    for _ in range(2):
        with pytest.raises(WheelError, match="No matching distribution"):
            wheels.environment("6.6", tmp_path)
    assert not list((tmp_path / "wheels").glob("flydsl-6.6*")) and len(calls) == 6


@pytest.mark.parametrize("version", ["", "../up", "-r x", "0.4.0; rm"])
def test_what_is_no_version_is_never_run(tmp_path: Path, version: str) -> None:
    with pytest.raises(WheelError, match="is not a version"):
        wheels.environment(version, tmp_path)


def test_the_installer_speaks_in_one_line() -> None:
    script = "import sys; print('WARNING: x\\nERROR: no wheel\\n[notice] new pip', file=sys.stderr); sys.exit(1)"
    with pytest.raises(WheelError, match=r"^ERROR: no wheel$"):
        wheels._run([sys.executable, "-c", script])
    with pytest.raises(WheelError, match="No such file"):
        wheels._run(["/nowhere/python"])
