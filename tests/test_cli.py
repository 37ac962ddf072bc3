"""The command line: what it loads, what it says and its exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gate.cli import VERBS, cli, run

HEAVY = (
    "torch",
    "triton",
    "flydsl",
    "aiter",
    "pandas",
    "scipy",
    "duckdb",
    "pyarrow",
    "ruptures",
    "numpy",
    "github",
    "jinja2",
    "rich",
    "jsonschema",
)


def _modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def options() -> Iterator[tuple[str, click.Option]]:
    """Every option that help shows, with the words that call its verb."""
    waiting: list[tuple[str, click.Command]] = [("gate", cli)]
    for words, command in waiting:
        if isinstance(command, click.Group):
            context = click.Context(command)
            found = ((name, command.get_command(context, name)) for name in command.list_commands(context))
            waiting += [(f"{words} {name}", one) for name, one in found if one is not None]
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                yield words, option


def test_every_option_says_what_it_does() -> None:
    found = list(options())
    assert len(found) > 200
    assert [f"{words} {option.opts[0]}" for words, option in found if not option.help] == []


def test_help_loads_no_heavy_package() -> None:
    loaded = _modules_after("from gate.cli import run; assert run(['--help']) == 0")
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    assert "Usage: gate " + verb in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["nosuch"], ["--nosuch"], ["validate", "--nosuch"], ["run", "--op"]])
def test_wrong_usage_is_one_line_and_64(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv) == 64
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert "--help" in told[0]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert "gate" in capsys.readouterr().out


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
# Exit code 1 is a block: nothing that happens to what is printed may give it.
PRINTING = (["policy", "explain"], ["baseline", "show"], ["ledger", "show"], ["validate", "pyproject.toml"], ["--help"])


@needs_full
@pytest.mark.parametrize("argv", PRINTING)
def test_output_that_cannot_be_printed_is_one_line_and_no_block(argv: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "gate", *argv]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "No space left on device" in done.stderr


@needs_full
@pytest.mark.parametrize(("argv", "code"), [(["judge"], 64), (["ledger", "check", "nowhere"], 2), (["nothing"], 64)])
def test_an_error_that_cannot_be_printed_keeps_its_exit_code(argv: list[str], code: int) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "gate", *argv], stdout=full, stderr=full, check=False)
    assert done.returncode == code


@pytest.mark.parametrize("argv", PRINTING[:3])
def test_a_reader_that_goes_away_is_no_block(argv: list[str]) -> None:
    command = [sys.executable, "-m", "gate", *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 2 and "Traceback" not in said


def test_closed_output_is_no_fault() -> None:
    command = f"{sys.executable} -m gate policy explain --policy nowhere >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_in_the_place_of_an_output_folder_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    (tmp_path / "file").write_text("")
    argv = ["judge", "--ledger", "l", "--matrix", "m", "--base", "b", "--head", "h", "--out", str(tmp_path / out)]
    assert run(argv) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"gate: {tmp_path}/{out}") and "cannot write" in said


@pytest.mark.parametrize(
    ("argv", "goes_on"),
    [(["judge"], False), (["run"], True), (["shard", "merge"], False), (["replay"], True), ([], False)],
)
def test_an_interruption_names_resume_only_where_there_is_one(
    argv: list[str], goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupt)
    assert run(argv) == 130
    assert ("--resume" in capsys.readouterr().err) is goes_on


def numbers(command: click.Command, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Parameter]]:
    """Every option of every verb that takes a number with a fraction, with the words that call the verb."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        below = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        return [found for name, one in below if one is not None for found in numbers(one, (*words, name))]
    kinds = (click.types.FloatParamType, click.FloatRange)
    return [(words, one) for one in command.params if isinstance(one.type, kinds)]


NUMBERS = numbers(cli)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "1e999", "x"])
@pytest.mark.parametrize(("words", "option"), NUMBERS, ids=[" ".join((*w, o.opts[0])) for w, o in NUMBERS])
def test_a_number_that_is_none_is_wrong_usage(
    words: tuple[str, ...], option: click.Parameter, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, f"{option.opts[0]}={value}"]) == 64
    said = capsys.readouterr().err
    assert option.opts[0] in said and said.count("\n") == 1
