"""`gate selftest`: how often the judge is wrong, and how other rules do on the same measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gate import store
from gate.commands.amounts import Amount
from gate.commands.judge_files import read_policy, read_results
from gate.commands.progress import progress
from gate.model.problem import Problem, UnusableInput
from gate.model.text import counted

if TYPE_CHECKING:
    from gate.analysis.trial.kernels import KernelPower
    from gate.analysis.trial.source import Source
    from gate.analysis.trial.table import RuleResult, Trial

FILE = click.Path(path_type=Path)
KERNEL_TRIES = 40
# The power that is asked for of every kernel.
GOAL = 0.95
FACTORS = (1.02, 1.03, 1.05, 1.10, 1.20)


@click.command("selftest", short_help="False alarms and power of the judge, beside other rules.")
@click.option("--session", "sessions", type=FILE, nargs=2, multiple=True, metavar="BASE HEAD",
              help="Results of one recorded session with equal code in base and head; may be repeated.")  # fmt: skip
@click.option("--noise", type=click.Choice(["h200", "mi350x"]), multiple=True, help="Simulated noise instead.")
@click.option("--rows", type=click.IntRange(10), default=493, show_default=True, help="Kernels of a simulated run.")
@click.option("--commits", type=click.IntRange(1), default=200, show_default=True, help="Identical commits.")
@click.option("--power-commits", type=click.IntRange(1), default=40, show_default=True,
              help="Commits per slowdown, each with one slowed row per time stratum.")  # fmt: skip
@click.option("--kernel-tries", type=click.IntRange(0),
              help="Tries of every single kernel at +2%.  [default: 40 with --session, else 0]")  # fmt: skip
@click.option("--visit-ms", type=Amount(min=0.01), help="GPU time of one visit; default the source's.")
@click.option("--policy", type=FILE, help="policy.toml; without it the defaults.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the noise.")
@click.option("--out", type=FILE, help="Folder for selftest.json.")
def command(
    sessions: tuple[tuple[Path, Path], ...],
    noise: tuple[str, ...],
    rows: int,
    commits: int,
    power_commits: int,
    kernel_tries: int | None,
    visit_ms: float | None,
    policy: Path | None,
    seed: int,
    out: Path | None,
) -> None:
    """Replays identical commits for false alarms and slowed rows for power.

    With --session the noise is that of recorded sessions; without it, it is simulated from published figures, and
    the table says so. Every rule sees the same kernels and noise.
    """
    from gate.analysis.trial import table

    in_force = read_policy(policy)
    trials = []
    for source, usual_ms in _sources(sessions, noise, rows=rows, seed=seed):
        tries = kernel_tries if kernel_tries is not None else KERNEL_TRIES if sessions else 0
        total = commits + len(FACTORS) * power_commits + tries
        with progress(f"selftest, {source.name}", total) as step:
            trial = table.run(
                source,
                in_force,
                commits=commits,
                power_commits=power_commits,
                factors=FACTORS,
                visit_ms=visit_ms or usual_ms,
                seed=seed,
                kernel_tries=tries,
                progress=step,
            )
        trials.append(trial)
        click.echo("\n".join(lines(trial)))
    if out is not None:
        store.write_json(out / "selftest.json", trials)


def _sources(
    sessions: tuple[tuple[Path, Path], ...], noise: tuple[str, ...], *, rows: int, seed: int
) -> list[tuple[Source, float]]:
    from gate.analysis.trial.source import NOISES, Recorded, Simulated

    found: list[tuple[Source, float]] = []
    for base, head in sessions:
        recorded = Recorded(read_results(base), read_results(head), name=f"recorded session {base.name}")
        if not len(recorded.times_us):
            what = "no row has blocks_us in both files"
            raise UnusableInput(Problem(what=what, file=str(base), fix="record base and head in one session"))
        found.append((recorded, NOISES["h200"].visit_ms))
    for name in noise or (() if sessions else ("h200", "mi350x")):
        found.append((Simulated(NOISES[name], rows=rows, seed=seed), NOISES[name].visit_ms))
    return found


def lines(trial: Trial) -> list[str]:
    """The trial as a table: false alarms on identical commits, then the power by slowdown over all strata."""
    from gate.analysis.trial.table import STRATUM_NAMES

    factors = list(trial.results[0].found)
    head = f"{'rule':33}{'red commits':>13}{'95% interval':>16}{'flags':>8}{'open':>7}{'GPU s':>7}"
    shown = "".join(f"{f'+{(float(factor) - 1):.0%}':>7}" for factor in factors)
    made = [
        "",
        f"{trial.source}: {counted(trial.rows, 'kernel')}; {counted(trial.commits, 'identical commit')}, then "
        f"{counted(trial.power_commits, 'commit')} per slowdown",
        f"{head}{shown}",
    ]
    made += [_line(result, factors) for result in trial.results]
    made += ["smallest tried slowdown found with 90% power, by kernel time:", f"{'':33}" + "".join(
        f"{name:>11}" for name in STRATUM_NAMES
    )]  # fmt: skip
    made += [
        f"{rule:33}" + "".join(f"{_effect(effect):>11}" for effect in effects) for rule, effects in trial.mde.items()
    ]
    return made if trial.kernels is None else [*made, _kernels(trial.kernels)]


def _kernels(power: KernelPower) -> str:
    least = min(range(len(power.found)), key=lambda row: power.found[row])
    return (
        f"every kernel slowed by {power.factor - 1:.0%}, {counted(power.tries, 'time')} each: found {GOAL:.0%} or more "
        f"of {power.at_least(GOAL)} of {counted(len(power.found), 'kernel')}; the least, of "
        f"{power.times_us[least]:.3g} us, {power.found[least] / power.tries:.0%}"
    )


def _line(result: RuleResult, factors: list[str]) -> str:
    low, high = result.interval
    counts = f"{result.red_commits}/{result.commits}"
    flags = result.false_flags / result.commits
    power = "".join(f"{sum(result.found[factor]) / max(sum(result.tried[factor]), 1):>7.0%}" for factor in factors)
    rate = f"{low:.1%}-{high:.1%}"
    return (
        f"{result.rule:33}{counts:>13}{rate:>16}{flags:>8.2f}{result.unjudged_rows:>7.1f}"
        f"{result.gpu_seconds:>7.2f}{power}"
    )


def _effect(effect: float | None) -> str:
    return "> 20%" if effect is None else f"{effect:.0%}"
