"""Promotes machine code: the records of a codegen run that passed become what later compilers are held against."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from gate import store
from gate.codegen import checkout
from gate.codegen.keys import compile_case
from gate.commands import baseline_files, judge_files, machine_code
from gate.commands.baseline_files import Op, Place, Refused
from gate.ledgers import promotion
from gate.ledgers.baselines import CodeOffer, Right, of_code
from gate.ledgers.freeze import sha256
from gate.ledgers.left_out import left_out
from gate.model.codegen import CodegenRecord
from gate.model.problem import Problem, UnusableInput
from gate.model.text import counted


def promote(
    source: Path, ops: Mapping[str, Op], right: Right, *, commit: str, name: str | None, accept_waived: bool
) -> None:
    """Writes codegen_records.jsonl of every op of the run, or of none. Raises Refused, UnusableInput."""
    assert right.decision is not None
    faults: list[Problem] = []
    ready = []
    offered = offers(source, ops, commit=commit)
    if absent := left_out(right.decision, offered):
        raise Refused(*absent)
    for offer in offered:
        codes = {record.compile_key: record.isa_sha for record in offer.records}
        said = {shape_id: codes.get(key) for shape_id, key in offer.keys.items()}
        foreign = promotion.foreign_to(right.decision, offer, times=said, said=_code_of)
        if foreign is not None:
            raise UnusableInput(foreign)
        baseline_files.unchanged(ops[offer.op_type].folder)
        found = baseline_files.place(ops[offer.op_type].folder, name or offer.records[0].arch)
        stored = _stored(found)
        own = {key: record for key, record in stored.items() if record.provider == offer.candidate}
        faults += promotion.verdict_faults(right.decision, op_type=offer.op_type, accept_waived=accept_waived)
        faults += promotion.code_faults(offer, own)
        kept = [record for key, record in stored.items() if key not in own]
        ready.append((found, offer, _bytes([*offer.records, *kept])))
    if faults:
        raise Refused(*faults)
    for found, offer, data in ready:
        _put(found, offer, right, data)


def _code_of(row: object) -> str | None:
    code = getattr(row, "code", None)
    return None if code is None or code.head is None else code.head.isa_sha or None


def offers(source: Path, ops: Mapping[str, Op], *, commit: str) -> list[CodeOffer]:
    """The records of head by op; ops without a ledger are told. Raises UnusableInput where there is no record."""
    head = source / "code" / "head"
    folder = head if head.is_dir() else source
    records = store.read_codegen(judge_files.found(folder, store.CODEGEN_FILE))
    if not records:
        raise UnusableInput(Problem(what=f"no {store.CODEGEN_FILE}", file=str(folder), fix="record the code first"))
    of_checkout = any(record.toolchain.kernels == checkout.NAME for record in records.values())
    case_of = checkout.compile_case if of_checkout else compile_case
    by_op: dict[str, list[CodegenRecord]] = {}
    for record in records.values():
        by_op.setdefault(record.op_type, []).append(record)
    for name in sorted(by_op.keys() - ops.keys()):
        left = counted(len(by_op[name]), "record is", "records are")
        click.echo(f"{name}: no frozen ledger, so {left} not stored", err=True)
    found = []
    for name in sorted(by_op.keys() & ops.keys()):
        op = ops[name]
        keys = {key: case.compile_key for key, case in machine_code.plan(op.shapes, case_of).cases.items()}
        candidate = op.matrix.candidate_provider
        own = tuple(record for record in by_op[name] if record.provider == candidate)
        if own:
            found.append(
                CodeOffer(op_type=name, shapes=op.shapes, keys=keys, candidate=candidate, records=own, commit=commit)
            )
    if not found:
        raise UnusableInput(Problem(what="no record is of a frozen op's candidate", file=str(folder)))
    return found


def _stored(found: Place) -> dict[str, CodegenRecord]:
    path = found.folder / store.CODEGEN_FILE
    return store.read_codegen([path]) if path.is_file() else {}


def _bytes(records: list[CodegenRecord]) -> bytes:
    """As `gate codegen record --as-baseline` writes them: sorted, without compile times."""
    ordered = sorted(records, key=lambda record: record.compile_key)
    return baseline_files.encoded(msgspec.structs.replace(record, compile_seconds=None) for record in ordered)


def _put(found: Place, offer: CodeOffer, right: Right, data: bytes) -> None:
    if found.stored("machine_code") == data:
        click.echo(f"{found.folder}: the machine code is the same")
        return
    baseline_files.put(found, of_code(offer, right, sha256=sha256(data)), data)
    click.echo(f"{found.folder}: {counted(len(offer.records), 'codegen record')} of {offer.commit[:12]}")
