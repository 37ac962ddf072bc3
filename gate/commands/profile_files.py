"""Where a profiler's files lie and what they say together: kernel trace, agent list, copies, JSON; and what is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gate import store
from gate.model.diagnosis import Diagnosis
from gate.model.problem import GateError, Problem, UnusableInput
from gate.model.text import counted
from gate.profiling import rocprof_csv, rocprof_json, torch_trace
from gate.profiling.trace import Trace

DIAGNOSIS_FILE = "diagnosis.json"
CHOICES_FILE = "profile_choices.jsonl"
KERNELS, AGENTS, COPIES = "kernel_trace.csv", "agent_info.csv", "memory_copy_trace.csv"
LARGEST_BYTES = 1 << 30


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One run's files: its name (what comes before the ending), and each file by what it is."""

    name: str
    files: dict[str, Path]


def find(place: Path) -> list[Found]:
    """The traces in a folder, or the one that a file is. Raises UnusableInput when there is none."""
    if place.is_file():
        return [_of_file(place)]
    if not place.is_dir():
        raise UnusableInput(Problem(what="there is nothing here", file=str(place), fix="give a trace or its folder"))
    traces = [path for path in sorted(place.rglob(f"*{KERNELS}")) if path.is_file()]
    found = [_of_file(path) for path in traces]
    named = {one.name for one in found}
    for path in sorted(place.rglob("*.json")):
        one = _of_file(path)
        if path.is_file() and path.name != DIAGNOSIS_FILE and one.name not in named:
            found.append(one)
    if not found:
        what = f"no *{KERNELS} and no trace in JSON in this folder"
        raise UnusableInput(Problem(what=what, file=str(place), fix="run the profiler with --output-format csv"))
    return found


def _of_file(path: Path) -> Found:
    if path.suffix == ".json":
        return Found(name=path.stem.removesuffix("_results"), files={"json": path})
    stem = path.name.removesuffix(KERNELS).removesuffix(".csv").rstrip("_")
    files = {"kernels": path}
    for key, ending in (("agents", AGENTS), ("copies", COPIES)):
        own = path.with_name(f"{stem}_{ending}" if stem else ending)
        others = sorted(path.parent.glob(f"*{ending}"))
        if own.is_file():
            files[key] = own
        elif key == "agents" and len(others) == 1:
            files["agents of another run"] = others[0]
    results = path.with_name(f"{stem}_results.json")
    if results.is_file():
        files["json"] = results
    return Found(name=stem or path.stem, files=files)


def read(found: Found) -> Trace:
    """The trace of one run: its CSV, completed by the agent list; its JSON where there is no CSV or it is of no use.

    Raises UnusableInput with each file's fault when none can be used.
    """
    faults: list[Problem] = []
    traces: list[Trace] = []
    for key in ("kernels", "json"):
        try:
            if key in found.files:
                traces.append(_with_company(_parse(found.files[key]), found))
        except GateError as error:
            faults += error.problems
    if not traces:
        raise UnusableInput(*faults)
    notes = [str(fault) for fault in faults]
    if len(traces) > 1 and len(traces[0].dispatches) != len(traces[1].dispatches):
        csv, other = (len(one.dispatches) for one in traces)
        notes.append(f"the CSV has {counted(csv, 'dispatch', 'dispatches')}, the JSON {other}")
    if len(traces) > 1 and not traces[0].agents:
        notes.append("the GPU's name is taken from the JSON")
        return msgspec.structs.replace(traces[1], notes=(*traces[1].notes, *notes))
    return msgspec.structs.replace(traces[0], notes=(*traces[0].notes, *notes))


def _text(path: Path) -> str:
    return store.read_bytes(path, most=LARGEST_BYTES).decode("utf-8", "replace")


def _parse(path: Path) -> Trace:
    text = _text(path)
    if path.suffix != ".json":
        return rocprof_csv.kernel_trace(text, file=path.name)
    if '"traceEvents"' in text:
        return torch_trace.trace(text, file=path.name)
    return rocprof_json.results(text, file=path.name)


def _with_company(trace: Trace, found: Found) -> Trace:
    """The trace with the agents and the copies that lie in files of their own."""
    notes = list(trace.notes)
    agents = trace.agents
    for key in ("agents", "agents of another run"):
        if key in found.files and not agents:
            path = found.files[key]
            try:
                agents = rocprof_csv.agents(_text(path), file=path.name)
            except GateError as error:
                notes += [str(problem) for problem in error.problems]
            if key != "agents":
                notes.append(f"the agent list is another run's, {path.name}")
    copies = trace.copies
    if "copies" in found.files and not copies:
        copies = rocprof_csv.copies(_text(found.files["copies"]))
    return msgspec.structs.replace(trace, agents=agents, copies=copies, notes=tuple(notes))


def keep(found: Found, out: Path) -> dict[str, str]:
    """Copies the files into `out` where they lie elsewhere; their names there, by what they are."""
    kept: dict[str, str] = {}
    for key, path in found.files.items():
        if path.resolve().is_relative_to(out.resolve()):
            kept[key] = path.resolve().relative_to(out.resolve()).as_posix()
        else:
            store.write_bytes(out / path.name, store.read_bytes(path, most=LARGEST_BYTES))
            kept[key] = path.name
    return kept


def write(out: Path, diagnosis: Diagnosis) -> None:
    """Writes diagnosis.json."""
    store.write_json(out / DIAGNOSIS_FILE, diagnosis)
