"""`gate profile`: what a profiler sees of one kernel, as diagnosis.json; or of existing traces; or of a decision's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.codegen import checkout, keys
from gate.commands import profile_files, unheeded
from gate.commands.amounts import Amount
from gate.commands.codegen_inputs import read_records
from gate.commands.profile_run import Request, default_arm, profile
from gate.commands.profile_table import show
from gate.commands.replay_inputs import Inputs, read_inputs
from gate.commands.replay_options import simulated
from gate.commands.telling import say, say_json, tell
from gate.model.codegen import CodegenRecord
from gate.model.decision import Decision
from gate.model.diagnosis import Diagnosis, ProfileChoice
from gate.model.problem import Exit, GateError, Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.model.text import counted
from gate.profiling import repro, tools, trigger
from gate.profiling.diagnose import Subject, diagnose
from gate.replay.arms import parse_spec
from gate.resources import frozen_ledgers_dir

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
OF_ONE = ("shape_id", "provider", "key", "as_json")
OF_A_RUN = ("tool", "op_from", "head", "timeout", "gpu", "simulate")


@click.command(short_help="Profile one shape and provider; write diagnosis.json.")
@click.option("--op", help="The op of --shape.")
@click.option("--shape", "shape_id", help="A shape id of the ledger.")
@click.option("--provider", help="A provider of the matrix. Default: the candidate.")
@click.option("--out", type=FOLDER, required=True, help="Where diagnosis.json and all that led to it go.")
@click.option("--from", "source", type=click.Path(path_type=Path), help="Read existing traces: a file or a folder.")
@click.option("--decision", type=FOLDER, help="Profile the rows that a judgement's decision.json asks for.")
@click.option("--tool", type=click.Choice(["auto", "rocprof", "torch"]), default="auto", show_default=True,
              help="rocprofv3 or torch.profiler; auto takes the one that is there.")  # fmt: skip
@click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl; default the packaged.")
@click.option("--ledger", type=FILE, help="One ledger, with --matrix.")
@click.option("--matrix", type=FILE, help="One baseline matrix, with --ledger.")
@click.option("--op-from", metavar="MODULE:ATTR", help="Where the op is defined, if not in this package.")
@click.option("--head", metavar="SPEC", help="python=,path=,ld=,flydsl=,env=N:V of the interpreter, as for replay.")
@click.option("--calls", type=click.IntRange(min=1), help=f"Measured calls, default {repro.CALLS}; of --from: in it.")
@click.option("--warmup", type=click.IntRange(min=0), help=f"Calls before them, default {repro.WARMUP}; of --from: 0.")
@click.option("--kernel", metavar="REGEX", help="Only kernels with such a name belong to the calls.")
@click.option("--arch", help="The architecture of --from, where the trace does not tell it.")
@click.option("--code", type=click.Path(path_type=Path), help="Machine-code records to compare with; default none.")
@click.option("--key", help="The compile key in --code; default the shape's.")
@click.option("--timeout", type=Amount(min=1), default=300.0, show_default=True, help="Seconds of one run.")
@click.option("--limit", type=click.IntRange(min=0), help="With --decision: at most so many, the furthest behind.")
@click.option("--gpu", help="The GPU to use, as an index.")
@click.option("--json", "as_json", is_flag=True, help="Print the diagnosis as JSON.")
@click.option(
    "--simulate", metavar="OPTIONS", hidden=True, callback=simulated, help="Open the simulated GPU in the script."
)
def command(**options: Any) -> int:
    """Run one kernel under rocprofv3 (AMD) or torch.profiler, or read what a profiler wrote before.

    The folder keeps the script, the trace and all output. Exit code 0 when a diagnosis was written, 2 when not.
    """
    given = [name for name in ("source", "decision", "op") if options[name]]
    if not given or ("decision" in given and len(given) > 1):
        what = "one of --op with --shape, --from, --decision is needed"
        raise WrongUsage(Problem(what=what, file="", fix="see 'gate profile --help'"))
    if options["code"] is None:
        unheeded.refuse(("key",), beside="a profile without --code")
    if options["decision"] is not None:
        unheeded.refuse(OF_ONE, beside="--decision, which names rows")
        return of_decision(options)
    unheeded.refuse(("limit",), beside="a profile without --decision")
    if options["source"] is not None:
        unheeded.refuse(OF_A_RUN, beside="--from, which runs nothing")
        return of_traces(options)
    diagnosis = of_shape(options)
    told(diagnosis, options)
    return Exit.PASS


def told(diagnosis: Diagnosis, options: Mapping[str, Any]) -> None:
    """Shows one diagnosis."""
    if options["as_json"]:
        say_json(diagnosis)
    else:
        show(diagnosis)


def inputs_of(options: Mapping[str, Any], op: str) -> Inputs:
    """The ledgers and matrices of the options."""
    return read_inputs(
        op=op,
        ledgers=options["ledgers"] or frozen_ledgers_dir(),
        ledger=options["ledger"],
        matrix=options["matrix"],
        candidate=None,
    )


def shape_in(inputs: Inputs, shape_id: str | None) -> Shape:
    """The shape of that id. Raises WrongUsage."""
    found = next((shape for shape in inputs.shapes if shape.shape_id == shape_id), None)
    if found is None:
        what = "--shape is needed" if shape_id is None else f"--shape {shape_id} is in no ledger"
        raise WrongUsage(Problem(what=what, file="", fix="see 'gate ledger show'"))
    return found


def request_of(inputs: Inputs, shape: Shape, provider: str | None, *, out: Path, options: Mapping[str, Any]) -> Request:
    """What is profiled. Raises WrongUsage for a provider that the matrix does not have or disables."""
    matrix = inputs.matrices[shape.op_type]
    name = provider or matrix.candidate_provider
    entry = matrix.providers.get(name)
    if entry is None or not entry.enabled:
        why = f": {entry.skip_reason}" if entry is not None and entry.skip_reason else ""
        what = f"--provider {name} is not enabled for {shape.op_type}{why}"
        raise WrongUsage(Problem(what=what, file="", fix=f"choose among {', '.join(matrix.enabled)}"))
    return Request(
        shape=shape,
        provider=name,
        entrypoint=entry.entrypoint,
        out=out,
        op=options["op_from"],
        tool=options["tool"],
        calls=options["calls"] or repro.CALLS,
        warmup=repro.WARMUP if options["warmup"] is None else options["warmup"],
        timeout_s=options["timeout"],
        kernel=options["kernel"],
        gpu=options["gpu"],
        device="gpu" if options["simulate"] is None else f"sim:{options['simulate']}",
    )


def of_shape(options: Mapping[str, Any]) -> Diagnosis:
    """Profiles the one shape of the options."""
    inputs = inputs_of(options, options["op"])
    shape = shape_in(inputs, options["shape_id"])
    request = request_of(inputs, shape, options["provider"], out=options["out"], options=options)
    arm = parse_spec(options["head"], side="head") if options["head"] else default_arm()
    with store.output_lock(options["out"]):
        return profile(request, arm, records_of(options), key_of(options, shape))


def records_of(options: Mapping[str, Any]) -> dict[str, CodegenRecord]:
    """The machine-code records of --code."""
    return read_records(options["code"], options["arch"] or "gfx950") if options["code"] is not None else {}


def key_of(options: Mapping[str, Any], shape: Shape | None) -> str | None:
    """The compile key to look for: --key, or the shape's own of whichever kernels the records are of."""
    if options["key"] is not None or shape is None or options["code"] is None:
        key: str | None = options["key"]
        return key
    records = records_of(options)
    for case in (keys.compile_case(shape), checkout.compile_case(shape)):
        if isinstance(case, keys.CompileCase) and case.compile_key in records:
            return case.compile_key
    say(f"gate: --code has no record for {shape.shape_id}; give --key", err=True)
    return None


def of_traces(options: Mapping[str, Any]) -> int:
    """Reads the traces of --from, one diagnosis each."""
    shape = shape_in(inputs_of(options, options["op"]), options["shape_id"]) if options["op"] else None
    record = records_of(options).get(key_of(options, shape) or "")
    found = profile_files.find(options["source"])
    with store.output_lock(options["out"]):
        for one in found:
            out = options["out"] if len(found) == 1 else options["out"] / one.name
            subject = Subject(
                shape_id=options["shape_id"] or "",
                provider=options["provider"] or "",
                op_type=shape.op_type if shape else "",
                dtype=shape.dtype if shape else "",
                args=dict(shape.args) if shape else {},
                arch=options["arch"] or "",
                calls=options["calls"],
                warmup=options["warmup"] or 0,
                kernel=options["kernel"],
            )
            trace = profile_files.read(one)
            diagnosis = diagnose(trace, subject, code=record, files=profile_files.keep(one, out))
            profile_files.write(out, diagnosis)
            told(diagnosis, options)
    return Exit.PASS


def of_decision(options: Mapping[str, Any]) -> int:
    """Profiles what the trigger rule names, and writes for every row whether and why (profile_choices.jsonl)."""
    path = options["decision"] / "decision.json"
    decision = store.read_record(path, Decision, what="a decision", fix="judge again", most=store.DOCUMENT_BYTES)
    chosen = trigger.choices(decision, most=options["limit"])
    with store.output_lock(options["out"]):
        done = [_choice(choice, options) if choice.profile else choice for choice in chosen]
        store.write_jsonl(options["out"] / profile_files.CHOICES_FILE, done)
    wanted, made = sum(one.profile for one in chosen), sum(bool(one.diagnosis) for one in done)
    deferred = len(done) - made
    say(f"{counted(len(done), 'row')}: {wanted} named by the rule, {made} profiled, {deferred} deferred with a reason")
    return Exit.PASS if made == wanted or not _has_tool(options) else Exit.NO_VERDICT


def _has_tool(options: Mapping[str, Any]) -> bool:
    try:
        arm = parse_spec(options["head"], side="head") if options["head"] else default_arm()
        environment = arm.environment({}, gpu=None)
        tools.find(options["tool"], folder=Path(), environment=environment, simulated=options["simulate"] is not None)
    except UnusableInput:
        return False
    return True


def _choice(choice: ProfileChoice, options: Mapping[str, Any]) -> ProfileChoice:
    """Profiles one row of a decision; whatever prevents it is the reason of the deferral."""
    try:
        inputs = inputs_of(options, "all")
        shape = shape_in(inputs, choice.shape_id)
        place = Path(shape.op_type) / shape.shape_id.removeprefix("sha1:") / choice.provider
        request = request_of(inputs, shape, choice.provider, out=options["out"] / place, options=options)
        arm = parse_spec(options["head"], side="head") if options["head"] else default_arm()
        profile(request, arm, records_of(options), key_of(options, shape))
    except GateError as error:
        tell(error.problems[0])
        reason = f"{choice.reason}; deferred: {error.problems[0]}"
        return msgspec.structs.replace(choice, profile=False, reason=reason)
    return msgspec.structs.replace(choice, diagnosis=(place / profile_files.DIAGNOSIS_FILE).as_posix())
