"""What a judgement tells of its inputs."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest

from gate.analysis.policy_text import policy_from
from gate.model.decision import Decision
from gate.model.text import counted
from gate.model.waiver import Waiver
from tests.analysis import build

LEDGER = build.ledger()
KNOWN = LEDGER.shapes[0].shape_id


def judged(document: dict[str, object], *waived: str) -> Decision:
    waivers = tuple(
        Waiver(shape_id=one, provider="flydsl", max_ratio=1.2, expires=date(2027, 1, 1), reason="r", issue="i")
        for one in waived
    )
    base, head = build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)
    return build.decide(LEDGER, base, head, policy=policy_from(document, file="p.toml"), waivers=waivers)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"ceilings": {"ops": {"rmsnrm": 0.1, "rmsnorm": 0.2}}}, "policy: ceilings.ops names rmsnrm, which no row"),
        ({"ceilings": {"shapes": {"sha1:x": 0.1, KNOWN: 0.1}}}, "policy: ceilings.shapes names sha1:x, which no row"),
        ({"hot": {"shapes": ["sha1:y", KNOWN]}}, "policy: hot.shapes names sha1:y, which no row"),
    ],
)
def test_what_the_policy_names_and_the_ledger_lacks_is_told(document: dict[str, object], told: str) -> None:
    (problem,) = judged(document).problems
    assert problem.startswith(told)


def test_a_waiver_of_an_unknown_shape_is_told_and_changes_no_verdict() -> None:
    decision = judged({}, "sha1:gone", KNOWN)
    assert decision.problems == ("waivers: shape_id names sha1:gone, which no row of the ledger is",)
    assert [use["state"] for use in decision.waivers] == ["unused", "unused"]
    assert decision.gate == "pass"


def test_many_unknown_names_are_counted() -> None:
    (problem,) = judged({"ceilings": {"ops": {f"op{n}": 0.1 for n in range(9)}}}).problems
    assert "op0, op1, op2, op3, op4 and 4 more, which no row" in problem


def test_known_names_are_no_problem() -> None:
    document = {"ceilings": {"ops": {"rmsnorm": 0.1}, "shapes": {KNOWN: 0.1}}, "hot": {"shapes": [KNOWN]}}
    assert judged(document, KNOWN).problems == ()


@pytest.mark.parametrize(("strangers", "told"), [(1, "rows of 1 shape that"), (2, "rows of 2 shapes that")])
def test_rows_that_the_ledger_does_not_hold_are_counted(strangers: int, told: str) -> None:
    part = msgspec.structs.replace(LEDGER, shapes=LEDGER.shapes[strangers:])
    base, head = build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)
    problems = build.decide(part, base, head).problems
    assert [one.partition(", such as ")[0] for one in problems] == [
        f"{side}: {told} the ledger does not hold" for side in ("base", "head")
    ]


def test_a_count_of_one_is_said_as_one() -> None:
    assert [counted(number, "shape") for number in (0, 1, 2)] == ["0 shapes", "1 shape", "2 shapes"]
    assert [counted(number, "row is", "rows are") for number in (1, 3)] == ["1 row is", "3 rows are"]
