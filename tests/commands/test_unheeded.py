"""An option that could not be heeded beside another is refused, not ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.cli import run

PAIR = ["--ledger", "l", "--matrix", "m", "--ledgers", "f"]
SHAPE = ["--op", "rmsnorm", "--shape", "sha1:642f7a188d3a01e9"]
BISECT = ["bisect", "--good", "a", "--bad", "b", *SHAPE, "--out"]
REPO = ["publish", "--repo", "o/r", "--error", "x"]
REFUSED = [
    (["replay", "--op", "rmsnorm", *PAIR, "--out"], "--ledgers has no part in --ledger and --matrix"),
    (["profile", *SHAPE, *PAIR, "--out"], "--ledgers has no part in --ledger and --matrix"),
    ([*BISECT[:-1], *PAIR, "--out"], "--ledgers has no part in --ledger and --matrix"),
    (["profile", *SHAPE, "--key", "k", "--out"], "--key has no part in a profile without --code"),
    (["profile", *SHAPE, "--limit", "1", "--out"], "--limit has no part in a profile without --decision"),
    (["profile", "--decision", "d", "--provider", "p", "--out"], "--provider has no part in --decision"),
    (["profile", "--decision", "d", "--json", "--out"], "--json has no part in --decision"),
    (["profile", "--from", "t", "--tool", "torch", "--out"], "--tool has no part in --from"),
    (["profile", "--from", "t", "--head", "path=.", "--out"], "--head has no part in --from"),
    (["bisect", "--versions", "a,b", *BISECT[1:]], "--versions has no part in a bisection of commits"),
    (["bisect", "--arm", "path={tree}", "--path-entry", "p", *BISECT[1:]], "--path-entry has no part in --arm"),
    (["codegen", "show", "--head", "h", "--html", "x.html", "--pages"], "--html has no part in --pages"),
    (["doctor", "--contracts", "--aiter", "a", "--out"], "--out has no part in --contracts"),
    (["doctor", "--contracts", "--aiter", "a", "--results"], "--results has no part in --contracts"),
    (["doctor", "--matrix", "--json", "--results"], "--json has no part in --matrix"),
    (["doctor", "--ledgers"], "these options need --contracts or --matrix"),
    ([*REPO, "--run", "1", "--pr", "7", "--from"], "--pr has no part in --run"),
    ([*REPO, "--sha", "a" * 40, "--attempt", "2", "--from"], "--attempt has no part in a call without --run"),
    (["run", "--replay", "--no-code", "--flydsl-checkout", "c", "--out"], "--flydsl-checkout has no part in --no-code"),
    (["run", "--replay", "--no-code", "--torch", "--out"], "--torch has no part in --no-code"),
]


@pytest.mark.parametrize(("argv", "words"), REFUSED)
def test_what_could_not_be_heeded_is_wrong_usage(
    argv: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command line ends with an option that takes the folder."""
    assert run([*argv, str(tmp_path)]) == 64
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert list(tmp_path.iterdir()) == []


def test_a_default_is_no_option_that_was_given(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--tool and --timeout have defaults, which --from does not refuse."""
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    assert run(["profile", "--from", str(tmp_path / "trace.json"), "--out", str(tmp_path / "out")]) == 2
    assert "has no part" not in capsys.readouterr().err
