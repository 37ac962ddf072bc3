"""The table of verbs; it imports none of them until one is called."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from gate import __version__
from gate.model.problem import Exit, GateError
from gate.model.text import one_line

# verb -> (module that defines `command`, one-line help). Listing the verbs must import none of the modules.
VERBS: dict[str, tuple[str, str]] = {
    "run": ("gate.commands.run", "The main job: compile or measure the frozen ledgers, judge, report."),
    "judge": ("gate.commands.judge", "Judge head results against base results over a ledger."),
    "policy": ("gate.commands.policy", "Show or check the policy that judges."),
    "ledger": ("gate.commands.ledger", "Import, freeze, check, show and compare shape ledgers."),
    "codegen": ("gate.commands.codegen", "Record and compare gfx950 machine code without a GPU."),
    "replay": ("gate.commands.replay", "Measure head, base and the baselines on this machine's GPUs."),
    "shard": ("gate.commands.shard", "Share a timed run out over runners, and put it together again."),
    "correctness": ("gate.commands.correctness", "Check outputs on this machine's GPUs, without timing."),
    "selftest": ("gate.commands.selftest", "False alarms and power of the judge, beside other rules."),
    "report": ("gate.commands.report", "Summaries, coverage and the HTML report of a judged run."),
    "profile": ("gate.commands.profile", "Profile one shape and provider, or read existing traces."),
    "bisect": ("gate.commands.bisect", "Find the commit or wheel that made a kernel slower."),
    "baseline": ("gate.commands.baseline", "Record, promote, show and compare stored baselines."),
    "history": ("gate.commands.history", "Keep the rows of all runs; show their series, noise and changes."),
    "artifact": ("gate.commands.artifact", "Hand results over to the trusted job, take them in, judge them."),
    "publish": ("gate.commands.publish", "Post a decision to GitHub: comment, status, summary, annotations."),
    "doctor": ("gate.commands.doctor", "Say what is wrong with a GPU node and how to mend it."),
    "validate": ("gate.commands.validate", "Tell which contract each file is and check every line."),
}

# Of a file that is there, only starting it can give these.
OF_STARTING = (errno.ENOENT, errno.ENOEXEC)


class LazyVerbs(click.Group):
    """A click group whose verbs are imported when they are called, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name or (command.name if command else None), command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.group(cls=LazyVerbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gate")
def cli() -> None:
    """Did this commit make a FlyDSL kernel slower, and does it deserve promotion?

    \b
    gate run                    judge the installed flydsl's gfx950 machine code, no GPU needed
    gate VERB --help            what a verb takes

    Exit codes: 0 pass, 1 block, 2 no verdict, 64 wrong usage.
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits; every foreseeable failure is one line on stderr and its exit code."""
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """The exit code of one command line."""
    try:
        code: Any = cli.main(args=list(argv) if argv is not None else None, prog_name="gate", standalone_mode=False)
        return int(code) if isinstance(code, int) else Exit.PASS
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "gate"
        return _fail(f"{where}: {error.format_message().rstrip('.')}; see '{where} --help'", code=Exit.USAGE)
    except click.ClickException as error:
        return _fail(f"gate: {error.format_message()}", code=Exit.USAGE)
    except GateError as error:
        return _fail(*(f"gate: {problem}" for problem in error.problems), code=error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        what = "finished work is on disk, run it again with --resume to go on" if _resumes(argv) else "run it again"
        return _fail(f"gate: interrupted; {what}", code=130)
    except SystemExit:
        # No verb ends the process by itself: click and rich do, with 1, where the reader of a pipe has gone.
        return _fail("gate: standard output is closed", code=Exit.NO_VERDICT)
    except OSError as error:
        return _fail(f"gate: {_system_fault(error)}", code=Exit.NO_VERDICT)


def _system_fault(error: OSError) -> str:
    """What the system refused, and what to do: it is the place of an output, or a program that cannot be started."""
    if error.errno in OF_STARTING:
        from gate.commands.starting import unstarted

        problem = unstarted(error)
        if problem is not None:
            return str(problem)
    where = error.filename if error.filename is not None else "standard output or standard error"
    return f"{where}: {error.strerror or str(error)}; make room, or name another place"


def _resumes(argv: Sequence[str] | None) -> bool:
    """Whether the verb that these words call can go on where it was cut."""
    command: click.Command | None = cli
    for word in sys.argv[1:] if argv is None else argv:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
    return command is not None and any("--resume" in parameter.opts for parameter in command.params)


def _fail(*lines: str, code: int) -> int:
    """Tells what is wrong, if anybody can be told, and returns the code whatever becomes of the words."""
    try:
        for line in lines:
            # A usage error may list its choices over several lines.
            click.echo(one_line(" ".join(line.split("\n\t"))), err=True)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, SystemExit):
        _drop_output()
    return code


def _drop_output() -> None:
    """Sends what Python still holds back nowhere: it would fail again at exit and replace the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
