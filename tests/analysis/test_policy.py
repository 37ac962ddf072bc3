"""The policy and waiver files: every key explained, wrong keys refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from gate.analysis.policy_text import explain, policy_from, waivers_from
from gate.model.policy import Policy
from gate.model.problem import UnusableInput
from tests.analysis import build

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"ceilingz": {"slower": 1.05}}, "p.toml: unknown key ceilingz; did you mean ceilings?"),
    ({"thresholds": {"slow": 0.1}}, "p.toml: unknown key thresholds.slow; did you mean thresholds.slower?"),
    (
        {"noise": {"cudagraph": {"limits": []}}},
        "unknown key noise.cudagraph.limits; did you mean noise.cudagraph.limit?",
    ),
    ({"hot": {"zzz": 1}}, "p.toml: unknown key hot.zzz; its keys are stages, shapes, min_weight"),
    ({"zzz": 1}, "p.toml: unknown key zzz; see gate policy explain for every key"),
    ({"thresholds": {"slower": "5%"}}, "p.toml: thresholds.slower: Expected `float`, got `str`"),
    ({"thresholds": {"slower": -0.1}}, "p.toml: thresholds.slower: Expected `float` >= 0.0"),
    ({"confirm": {"alpha": 0.0}}, "p.toml: confirm.alpha: Expected `float` >= 1e-06"),
    ({"confirm": {"alpha": 1e-9}}, "p.toml: confirm.alpha: Expected `float` >= 1e-06"),
    ({"confirm": {"alpha": 0.9}}, "p.toml: confirm.alpha: Expected `float` <= 0.5"),
    ({"screen": {"fdr": 1e-12}}, "p.toml: screen.fdr: Expected `float` >= 1e-06"),
    ({"geomean": {"alpha": 0}}, "p.toml: geomean.alpha: Expected `float` >= 1e-06"),
    ({"hot": {"stages": ["prefil"]}}, "p.toml: hot.stages[0]: Invalid enum value 'prefil'"),
    ({"thresholds": 3}, "p.toml: thresholds: Expected `object`, got `int`"),
]


@pytest.mark.parametrize(("document", "message"), WRONG)
def test_a_wrong_key_is_refused_by_name(document: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        policy_from(document, file="p.toml")
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_every_wrong_key_is_named_at_once() -> None:
    with pytest.raises(UnusableInput) as caught:
        policy_from({"a": 1, "thresholds": {"b": 2}}, file="p.toml")
    assert len(caught.value.problems) == 2


def test_a_partial_policy_keeps_the_other_defaults() -> None:
    policy = policy_from({"thresholds": {"slower": 0.02}, "screen": {"looks": [4, 8]}}, file="p.toml")
    assert (policy.thresholds.slower, policy.thresholds.not_slower, policy.screen.looks) == (0.02, 0.05, (4, 8))


def test_every_key_is_explained_with_its_value_and_default() -> None:
    keys = {key.key: key for key in explain(policy_from({"thresholds": {"slower": 0.02}}, file="p.toml"))}
    assert (keys["thresholds.slower"].value, keys["thresholds.slower"].default) == (0.02, 0.01)
    assert all(len(key.text) > 20 and key.text.endswith(".") for key in keys.values())
    assert len(keys) > 35


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"by": "me"}, "waiver.by; its keys are shape_id, provider, max_ratio, expires, reason, issue"),
        ({"max_ratios": 1.2}, "unknown key waiver.max_ratios; did you mean waiver.max_ratio?"),
        ({"max_ratio": 0.9}, "Expected `float` > 1.0"),
        ({"reason": ""}, "waiver[0].reason"),
        ({"provider": "flydsk"}, "Invalid enum value 'flydsk'"),
    ],
)
def test_a_wrong_waiver_is_refused(entry: dict[str, Any], message: str) -> None:
    whole = {
        "shape_id": "s",
        "provider": "flydsl",
        "max_ratio": 1.2,
        "expires": "2026-01-01",
        "reason": "r",
        "issue": "i",
    }
    with pytest.raises(UnusableInput, match=r"waivers\.toml") as caught:
        waivers_from({"waiver": [{**whole, **entry}]}, file="waivers.toml")
    assert message in str(caught.value)


LEDGER = build.ledger()
CEILINGS: list[tuple[dict[str, Any], str, str]] = [
    ({"ops": {"rmsnorm": 0.25}}, "unchanged", "under_ceiling"),
    ({"ops": {"softmax": 0.25}}, "regressed", "slower"),
    ({"shapes": {LEDGER.shapes[4].shape_id: 0.25}}, "unchanged", "under_ceiling"),
    ({"ops": {"rmsnorm": 0.25}, "shapes": {LEDGER.shapes[4].shape_id: 0.05}}, "regressed", "slower"),
    ({"ops": {"rmsnorm": 0.14}}, "regressed", "slower"),
]


@pytest.mark.parametrize(("ceilings", "verdict", "code"), CEILINGS)
def test_ceilings(ceilings: dict[str, Any], verdict: str, code: str) -> None:
    policy = policy_from({"ceilings": ceilings, "geomean": {"limit": 0.5}}, file="p.toml")
    base, head = build.run(LEDGER, seed=1), build.run(LEDGER, seed=2, factors={4: 1.2})
    row = build.row(build.decide(LEDGER, base, head, policy=policy), 4)
    assert (row.verdict, row.reasons[0]) == (verdict, code)


def test_the_decision_carries_the_policy_that_made_it() -> None:
    decision = build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2))
    assert decision.policy["thresholds"] == {"slower": 0.01, "not_slower": 0.05}
    assert policy_from(decision.policy, file="p.toml") == Policy()
