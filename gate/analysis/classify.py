"""Which of the eight categories a row falls into, whether it is worth a profiler run, and what its launcher costs."""

from __future__ import annotations

import msgspec

from gate.analysis.case import Case, Category, Rule, is_unstable
from gate.analysis.rules import (
    algorithm_gap,
    baseline_unfair_or_unmatched,
    flydsl_codegen_gap,
    implementation_gap,
    launch_or_roofline_limited,
    measurement_issue,
    ok,
    tuning_gap,
)
from gate.model.outcome import AnyOutcome

# The first rule that speaks decides: first whether the numbers can be believed, then what explains them.
RULES: tuple[Rule, ...] = (
    measurement_issue.rule,
    baseline_unfair_or_unmatched.rule,
    ok.rule,
    launch_or_roofline_limited.rule,
    flydsl_codegen_gap.rule,
    implementation_gap.rule,
    algorithm_gap.rule,
    tuning_gap.rule,
)
# Machine code without a time: only what the code itself shows.
CODE_RULES: tuple[Rule, ...] = (flydsl_codegen_gap.rule,)
# Host time per call from which the launcher is worth a word, and its share of the kernel's time.
LAUNCHER_US, LAUNCHER_SHARE = 20.0, 1.0


class Classified(msgspec.Struct, frozen=True, kw_only=True):
    """The category of a row (None: nothing can be said), whether to profile it, and a word on its launcher."""

    category: Category | None = None
    profile: bool = False
    launcher: str = ""


def classify(case: Case, *, hot: bool) -> Classified:
    """The first rule's category. A row that failed or did not run has none; its verdict says it all."""
    if case.head.state not in ("ok", "unusable"):
        return Classified()
    rules = RULES if case.head.timed or case.head.state == "unusable" else CODE_RULES
    found = next((category for rule in rules if (category := rule(case)) is not None), None)
    return Classified(category=found, profile=hot and worth_profiling(case), launcher=launcher(case.outcome))


def worth_profiling(case: Case) -> bool:
    """The profiler trigger for a hot row: clearly behind the best baseline, and stable (else it is re-measured)."""
    speedup = case.best.speedup
    return (
        speedup is not None
        and speedup < case.policy.classify.profile_below
        and not is_unstable(case.outcome, case.policy)
    )


def launcher(outcome: AnyOutcome | None) -> str:
    """What the host adds to the kernel, where it is large; judged apart from the kernel's own standing."""
    if outcome is None or outcome.host_overhead_us is None or not outcome.median_us:
        return ""
    overhead = outcome.host_overhead_us
    if overhead < LAUNCHER_US or overhead < LAUNCHER_SHARE * outcome.median_us:
        return ""
    return f"the launcher adds {overhead:.3g} us to a kernel of {outcome.median_us:.3g} us"
