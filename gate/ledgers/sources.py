"""Knows the outside files that the importers read, as far as `gate validate` must tell them and check them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

from gate.ledgers import aiter_model_shapes, atom, documents, hf_config, manual, sglang_log, torch_trace
from gate.ledgers.known import Lacking, lacks_nothing
from gate.model.problem import Problem, UnusableInput
from gate.schemas.strict import NotStrict, utf8

# How many records, what is wrong, and what the file is in words.
Checked = tuple[int, tuple[Problem, ...], str]


def _aiter(file: str, data: bytes, lacking: Lacking) -> Checked:
    sweep = aiter_model_shapes.Sweep(m_values=(1,))
    found = aiter_model_shapes.read(documents.parse(data, file=file), file=file, sweep=sweep)
    return sum(found.counts.values()), found.problems, "AITER's model shapes"


def _hf_config(file: str, data: bytes, lacking: Lacking) -> Checked:
    hf_config.read(documents.parse(data, file=file), file=file, name="any")
    return 1, (), "model config"


def _sglang_log(file: str, data: bytes, lacking: Lacking) -> Checked:
    lines = enumerate(io.BytesIO(data), start=1)
    found = sglang_log.read(lines, file=file, reading=sglang_log.Reading())
    return found.prefill_lines + found.decode_lines, found.problems, "SGLang server log"


def _torch_trace(file: str, data: bytes, lacking: Lacking) -> Checked:
    found = torch_trace.read(documents.parse(data, file=file), file=file, model="any")
    return sum(draft.occurrences or 0 for draft in found.drafts), found.problems, "torch profiler trace"


def _manual(file: str, data: bytes, lacking: Lacking) -> Checked:
    document = documents.parse(data, file=file)
    anchors, _ = atom.read(document, file=file)
    if anchors:
        return len(anchors), tuple(atom.read(document, file=file)[1]), "serving anchors"
    drafts, problems = manual.read(document, file=file, data=data, lacking=lacking)
    return len(drafts), tuple(problems), "manual shapes"


CHECKS: Mapping[str, Callable[[str, bytes, Lacking], Checked]] = {
    "aiter_model_shapes": _aiter,
    "hf_config": _hf_config,
    "manual_shapes": _manual,
    "sglang_log": _sglang_log,
    "torch_trace": _torch_trace,
}


def check(kind: str, *, file: str, data: bytes, lacking: Lacking = lacks_nothing) -> Checked:
    """Records, problems and a note on a source file; an empty or unknown file is a problem.

    `lacking` says which dimensions a shape lacks.
    """
    if kind in CHECKS:
        try:
            return CHECKS[kind](file, data, lacking)
        except UnusableInput as error:
            return 0, error.problems, ""
    if kind == "empty":
        return 0, (Problem(what="the file is empty", file=file),), ""
    try:
        utf8(data)
    except NotStrict as error:
        return 0, (Problem(what=f"its content is none of the contracts: {error}", file=file),), ""
    what = "its content is none of the contracts, nor a source that an importer reads"
    return 0, (Problem(what=what, file=file, fix="see gate/schemas for the contracts"),), ""
