"""The whole judgement as one pure function: ledger, matrices, results, policy and waivers in, a Decision out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

import msgspec

from gate.analysis import confirm, decide, design, findings, geomean_gate, phrases, summary, whole
from gate.analysis import controls as control_arm
from gate.analysis.book import Book, open_book
from gate.analysis.case import Case
from gate.analysis.cells import Cell, lay_out
from gate.analysis.classify import classify
from gate.analysis.estimate import Pair
from gate.analysis.plain import part
from gate.analysis.plain.columns import AnyResults, Columns
from gate.analysis.plain.part import Part
from gate.analysis.problems import told
from gate.analysis.profiled import Profiles, usable
from gate.analysis.rows import Row, is_hot, judge_rows
from gate.model.decision import CodeEvidence, Decision, RowFinding
from gate.model.diagnosis import Diagnosis
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.policy import Policy
from gate.model.waiver import Waiver, WaiverUse


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a judgement depends on.

    `matrices` by op_type; `code` the machine-code comparison by shape_id; `confirm` the base and head results of a
    fresh session that settles suspects; `profiles` what a profiler saw, by shape_id and provider.
    """

    ledger: Ledger
    matrices: Mapping[str, Matrix]
    base: AnyResults
    head: AnyResults
    today: date
    policy: Policy = Policy()
    waivers: tuple[Waiver, ...] = ()
    code: Mapping[str, CodeEvidence] = {}
    confirm: tuple[AnyResults, AnyResults] | None = None
    profiles: Profiles = {}


class WholeRun(msgspec.Struct, frozen=True, kw_only=True):
    """All rows with their findings, and what else they leave for the decision over the whole run.

    `cells` and `rows` are those judged row by row, `found` those of the whole `ledger`; `again` the pairs of the
    confirming session by shape_id, `of_no_use` what is said of profiles that did not help.
    """

    inputs: Inputs
    ledger: Ledger
    plain: Part | None
    cells: Sequence[Cell]
    rows: Sequence[Row]
    found: tuple[RowFinding, ...]
    moved: control_arm.Controls
    uses: tuple[WaiverUse, ...]
    books: tuple[Book, Book]
    again: Mapping[str, Pair]
    of_no_use: tuple[str, ...]


def judge(inputs: Inputs) -> Decision:
    """The decision: exactly one finding per ledger shape and its candidate, in the ledger's order."""
    plain = _plain(inputs)
    if plain is None:
        return _judge(inputs, inputs.ledger, None)
    base, head = plain.left_over()
    rest = msgspec.structs.replace(inputs, base=base, head=head, ledger=plain.others(inputs.ledger))
    return _judge(rest, inputs.ledger, plain)


def _plain(inputs: Inputs) -> Part | None:
    """The shapes that can be judged as columns, where both runs were read as such."""
    if not isinstance(inputs.base, Columns) or not isinstance(inputs.head, Columns) or not inputs.ledger.shapes:
        return None
    profiled = (shape_id for shape_id, _ in inputs.profiles)
    singled_out = [*(waiver.shape_id for waiver in inputs.waivers), *inputs.code, *profiled]
    return part.part(
        inputs.ledger,
        inputs.matrices,
        base=inputs.base,
        head=inputs.head,
        policy=inputs.policy,
        singled_out=singled_out,
    )


def _judge(inputs: Inputs, ledger: Ledger, plain: Part | None) -> Decision:
    """The decision over `ledger`, of which the shapes of `inputs` are judged row by row and the others are plain."""
    policy, base, head = inputs.policy, open_book(inputs.base), open_book(inputs.head)
    cells = lay_out(inputs.ledger, inputs.matrices, base=base, head=head, policy=policy)
    known = None if plain is None else part.moves(plain, ledger, inputs.matrices, policy)
    moved = control_arm.compare(cells, policy, known)
    floors = summary.launch_floors((base, head), policy)
    again = confirm.pairs_of(inputs.confirm, inputs.ledger, inputs.matrices, policy)
    rows = judge_rows(
        cells,
        policy=policy,
        controls=moved,
        floors=floors,
        code=inputs.code,
        confirm=again,
    )
    rows, uses = findings.apply_waivers(cells, rows, inputs.waivers, today=inputs.today)
    profiles, of_no_use = usable(inputs.profiles, cells)
    found = _findings(cells, rows, inputs, floors, profiles)
    if plain is not None:
        found = part.in_ledger_order(plain.findings(ledger, policy=policy, controls=moved), found, plain.mask)
    assert len(found) == len(ledger.shapes), "one finding per ledger row"
    return _decision(
        WholeRun(
            inputs=inputs,
            ledger=ledger,
            plain=plain,
            cells=cells,
            rows=rows,
            found=found,
            moved=moved,
            uses=uses,
            books=(base, head),
            again=again,
            of_no_use=of_no_use,
        )
    )


def _findings(
    cells: Sequence[Cell],
    rows: Sequence[Row],
    inputs: Inputs,
    floors: Mapping[str, float],
    profiles: Mapping[str, Diagnosis],
) -> tuple[RowFinding, ...]:
    policy = inputs.policy
    result = []
    for cell, row in zip(cells, rows, strict=True):
        best = findings.standing(cell)
        case = Case(
            shape=cell.shape,
            head=cell.head_arm,
            best=best,
            policy=policy,
            at_floor=summary.near_floor(cell.head_arm.outcome, floors, policy),
            code=inputs.code.get(cell.shape.shape_id),
            profile=profiles.get(cell.shape.shape_id),
        )
        classified = classify(case, hot=is_hot(cell.shape, policy))
        result.append(findings.finding(cell, row, best, classified, policy=policy, code=inputs.code))
    return tuple(result)


def _decision(seen: WholeRun) -> Decision:
    inputs, plain, cells, found = seen.inputs, seen.plain, seen.cells, seen.found
    policy = inputs.policy
    tests = geomean_gate.tests(cells, seen.rows, policy)
    counts = whole.counts(found)
    required = sum(1 for row in seen.rows if row.required) + (plain.size if plain else 0)
    cover = decide.coverage(counts, required=required, policy=policy)
    tested = sum(1 for row in seen.rows if row.estimate is not None and row.estimate.kind == "blocks")
    refused_design = design.refusal(policy, n_tests=tested) if tested else None
    facts = _facts(seen, cannot_fail=refused_design is not None)
    outcome = decide.decide(found, cover=cover, tests=tests, facts=facts, policy=policy)
    most = max(map(whole.processes, seen.again.values()), default=0)
    return Decision(
        gate=outcome.gate,
        decision=outcome.decision,
        headline=outcome.headline,
        reasons=outcome.reasons,
        summary=phrases.summary(outcome, counts, cover),
        next_step=phrases.next_step(outcome, found, whole.timed_instead(cells)),
        kind="codegen" if facts.codegen else "timing",
        counts=counts,
        coverage=cover,
        geomean=outcome.standing,
        rows=found,
        environment=whole.environment(cells, seen.books, plain),
        controls=() if facts.codegen else seen.moved.movements,
        standings=whole.standings(seen.ledger, inputs.matrices, cells, found, plain),
        geomean_tests=tests,
        problems=_problems(seen, refused_design),
        waivers=tuple(whole.waiver(use) for use in seen.uses),
        commands=phrases.commands(found, policy, confirmed=most),
        policy=msgspec.to_builtins(policy),
        error_rates={} if facts.codegen else whole.error_rates(policy, tested, tests),
    )


def _facts(seen: WholeRun, *, cannot_fail: bool) -> decide.Facts:
    """What the decision must know of the run besides its rows."""
    inputs, plain, (base, head) = seen.inputs, seen.plain, seen.books
    methods = whole.methods(seen.cells) | (plain.methods() if plain else frozenset())
    codegen = methods == {"codegen"}
    some = plain is not None and plain.size > 0
    return decide.Facts(
        codegen=codegen,
        ledger_refused=bool(seen.ledger.problems),
        rows_refused=bool(inputs.base.problems or inputs.head.problems),
        mixed_kinds="codegen" in methods and not codegen,
        base_empty=base.empty and not some,
        head_empty=head.empty and not some,
        cannot_fail=cannot_fail,
        absent_baselines=any(control.absent for control in seen.moved.movements)
        or any("baseline_absent" in finding.baseline_reasons for finding in seen.found),
    )


def _problems(seen: WholeRun, refused_design: str | None) -> tuple[str, ...]:
    inputs = seen.inputs
    of_inputs = told(
        inputs.base.problems,
        inputs.head.problems,
        seen.ledger,
        seen.books,
        moved=seen.moved,
        policy=inputs.policy,
        waivers=inputs.waivers,
        refused_design=refused_design,
    )
    return of_inputs + seen.of_no_use
