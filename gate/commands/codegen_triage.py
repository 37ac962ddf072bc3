"""`gate codegen triage`: which shapes a GPU run must still measure, and which have the same machine code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from gate import store
from gate.codegen import checkout
from gate.codegen.diff import compare_all
from gate.codegen.keys import compile_case
from gate.codegen.triage import Triage, triage
from gate.commands.amounts import Amount
from gate.commands.codegen_inputs import FILE, FOLDER, codegen_policy, comparable, hold, read_records, thresholds
from gate.model.problem import Problem, UnusableInput
from gate.model.text import counted
from gate.resources import frozen_ledgers_dir

TRIAGE_FILE = "triage.jsonl"
SHAPES_FILE = "shapes_to_run.txt"


@click.command("triage")
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("head", type=click.Path(path_type=Path))
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl. Default: those of this package.")
@click.option("--arch", default="gfx950", show_default=True, help="Which baseline of a folder of ledgers.")
@click.option("--policy", type=FILE, help="Policy file: skip equal code, or keep samples of it.")
@click.option("--out", type=FOLDER, help=f"Folder that gets {TRIAGE_FILE} and {SHAPES_FILE} (one shape_id a line).")
@click.option("--seconds-per-shape", type=Amount(min=0), help="GPU seconds a shape takes: tells what is saved.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines on standard output.")
def command(
    base: Path,
    head: Path,
    ledgers: Path | None,
    arch: str,
    policy: Path | None,
    out: Path | None,
    seconds_per_shape: float | None,
    as_json: bool,
) -> None:
    """List every ledger shape as run, sample (an A/A pair for the noise record) or skip.

    Only equal machine code spares a shape; one without code, or that compiled on one side alone, is run.
    """
    rules, _ = codegen_policy(policy)
    before, after = read_records(base, arch), read_records(head, arch)
    comparable(before, after)
    changes = {change.compile_key: change for change in compare_all(before, after, thresholds(rules))}
    files = sorted((ledgers or frozen_ledgers_dir()).glob(f"*/{store.LEDGER_FILE}"))
    read = [store.read_ledger(path) for path in files]
    problems = [problem for ledger in read for problem in ledger.problems]
    if problems or not files:
        missing = Problem(what=f"no <op>/{store.LEDGER_FILE}", file=str(ledgers), fix="name a folder of ledgers")
        raise UnusableInput(*(problems or [missing]))
    shapes = [shape for ledger in read for shape in ledger.shapes]
    of_checkout = any(record.toolchain.kernels == checkout.NAME for record in after.values())
    cases = {shape.shape_id: (checkout.compile_case if of_checkout else compile_case)(shape) for shape in shapes}
    found = triage(shapes, cases, changes, same_code=rules.same_code, samples=rules.same_code_samples)
    hold(out)
    if out is not None:
        store.write_jsonl(out / TRIAGE_FILE, found)
        store.write_text(out / SHAPES_FILE, "".join(f"{one.shape_id}\n" for one in found if one.action != "skip"))
    tell(found, seconds_per_shape, as_json=as_json)


def tell(found: tuple[Triage, ...], seconds: float | None, *, as_json: bool) -> None:
    if as_json:
        for one in found:
            click.echo(store.encode(one).decode("utf-8"))
        return
    for (op, action, reason), count in sorted(Counter((one.op_type, one.action, one.reason) for one in found).items()):
        click.echo(f"{action:7} {count:5} {op}: {reason}")
    counts = Counter(one.action for one in found)
    spared = (
        f", {counts['skip'] * seconds / 60:.0f} of {len(found) * seconds / 60:.0f} GPU minutes saved" if seconds else ""
    )
    shapes = counted(len(found), "shape")
    click.echo(f"{shapes}: {counts['run']} run, {counts['sample']} sample, {counts['skip']} skip{spared}")
