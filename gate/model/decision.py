"""What a judgement says: one finding per (shape, candidate), the controls, the environment and the decision."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

Verdict = Literal[
    "regressed",
    "improved",
    "unchanged",
    "inconclusive",
    "newly_failed",
    "newly_incorrect",
    "fixed",
    "missing",
    "new",
    "not_comparable",
    "waived",
    "not_run",
]
GateOutcome = Literal["pass", "block", "no_verdict"]
DecisionWord = Literal["promote", "promote_with_guardrails", "tune_needed", "rewrite_needed", "blocked"]
Headline = Literal["promote", "tune", "block", "no_verdict"]
Classification = Literal[
    "ok",
    "implementation_gap",
    "tuning_gap",
    "algorithm_gap",
    "flydsl_codegen_gap",
    "launch_or_roofline_limited",
    "measurement_issue",
    "baseline_unfair_or_unmatched",
]
CLASSIFICATIONS: tuple[str, ...] = get_args(Classification)
SCHEMA = "gate.decision/1"


class CodeSide(msgspec.Struct, frozen=True, kw_only=True):
    """The machine code of one arm in numbers: registers per lane, bytes, waves per SIMD, instructions."""

    vgpr: int
    agpr: int
    sgpr: int
    spills: int
    scratch_bytes: int
    lds_bytes: int
    waves_per_simd: int
    instructions: int
    isa_sha: str


class CodeEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the codegen comparison says of a row: its verdict, sentences with numbers, and both sides.

    `page` is the kernel's page, base beside head, relative to the folder of the judgement; empty where there is none.
    """

    compile_key: str
    verdict: str
    findings: tuple[str, ...] = ()
    base: CodeSide | None = None
    head: CodeSide | None = None
    page: str = ""


class RowFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The one judgement of a (ledger shape, candidate).

    `ratio` is head time over base time (above 1 = slower); `ci` its confidence interval, `mde` the smallest
    slowdown (as a fraction) that this row could have shown; `speedup_vs_best` is the best pinned baseline's time
    over the candidate's (above 1 = candidate faster). Absent numbers are null, never NaN. `ceiling` is the slowdown
    that the policy accepts; `suspect` marks a row that a confirming session should settle, `profile` one that is
    worth a profiler run. `launcher` tells of a large host overhead, which the verdict leaves out.
    """

    shape_id: str
    provider: str
    verdict: Verdict
    reasons: tuple[str, ...]
    op_type: str
    model: str
    stage: str
    dtype: str
    args: dict[str, Any]
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    mde: float | None = None
    base_us: float | None = None
    head_us: float | None = None
    classification: Classification | None = None
    baseline_reasons: tuple[str, ...] = ()
    evidence: str = ""
    likely_fix: str = ""
    launcher: str = ""
    hot: bool = False
    weight: float | None = None
    speedup_vs_best: float | None = None
    best_baseline: str | None = None
    method: str | None = None
    status: str | None = None
    detail: str = ""
    code: CodeEvidence | None = None
    ceiling: float | None = None
    suspect: bool = False
    profile: bool = False


class ControlMovement(msgspec.Struct, frozen=True, kw_only=True):
    """How far one untouched baseline moved between base and head: geomean of head over base on `n` paired rows."""

    provider: str
    n: int
    ratio: float | None
    moved: bool
    absent: bool = False


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the ledger was judged.

    `required` rows are those that must be compared, `measured` those that were, `judged` those with a clear verdict
    (not inconclusive). `share` is measured over required, `conclusive_share` judged over measured; beside each what
    the policy asks.
    """

    required: int
    judged: int
    measured: int
    share: float
    required_share: float
    conclusive_share: float = 0.0
    required_conclusive_share: float = 0.0


class Geomean(msgspec.Struct, frozen=True, kw_only=True):
    """Geometric means of speedups, above 1 = candidate faster.

    `n` counts the rows that have a best baseline, `n_base` those compared with base.
    """

    vs_best: float | None = None
    weighted: float | None = None
    vs_base: float | None = None
    n: int = 0
    n_base: int = 0


class GeomeanTest(msgspec.Struct, frozen=True, kw_only=True):
    """The test of many rows together (`name`: an op, or all): `ratio` is head over base, `low` its lower bound."""

    name: str
    n: int
    ratio: float
    low: float
    limit: float
    slower: bool


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate's standing in one group (`by`: op, stage, model or baseline)."""

    by: str
    name: str
    geomean: Geomean
    rows: int


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The two stacks and the fields that differ between them."""

    base: dict[str, str]
    head: dict[str, str]
    differences: tuple[str, ...] = ()


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One copy-paste command and what it is for."""

    what: str
    line: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """decision.json: everything that is said about a run, and nothing that changes between equal inputs."""

    schema: str = SCHEMA
    gate: GateOutcome
    decision: DecisionWord
    headline: Headline
    reasons: tuple[str, ...]
    summary: str
    next_step: str
    kind: Literal["timing", "codegen"]
    counts: dict[str, int]
    coverage: Coverage
    geomean: Geomean
    rows: tuple[RowFinding, ...]
    environment: Environment
    controls: tuple[ControlMovement, ...] = ()
    standings: tuple[Standing, ...] = ()
    geomean_tests: tuple[GeomeanTest, ...] = ()
    problems: tuple[str, ...] = ()
    scope: str = ""
    waivers: tuple[dict[str, Any], ...] = ()
    commands: tuple[Command, ...] = ()
    policy: dict[str, Any] = {}
    error_rates: dict[str, Any] = {}
