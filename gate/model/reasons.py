"""What each reason code means, in one sentence for people."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    # of a row
    "slower": "slower than the base, and by more than noise explains",
    "faster": "faster than the base, and by more than noise explains",
    "within_noise": "the difference is within the noise",
    "inconclusive": "too noisy to say slower or not slower",
    "floor_limited": "close to the cost of an empty launch, so the kernel's own time is hardly visible",
    "unstable": "the samples spread too far (p90/p10 above 1.2)",
    "bimodal": "the samples fall into two groups",
    "duplicate": "measured more than once, and the copies are not told apart",
    "missing": "measured in the base and absent from the head",
    "invalid_time": "the time is zero, negative or not a number",
    "method_mismatch": "base and head were timed by different methods",
    "cache_mismatch": "base and head were timed with the cache in different states",
    "unit_mismatch": "base and head are not in the same unit",
    "environment_mismatch": "base and head ran on different GPUs or stacks",
    "stale_baseline": "the stored baseline is too old for this stack",
    "no_baseline": "there is nothing to compare with in the base",
    "control_moved": "the untouched baselines moved too, so the machine changed and not only the kernel",
    "newly_failed": "ran in the base and fails in the head",
    "newly_incorrect": "right in the base and gives wrong results in the head",
    "still_failing": "failed in the base and fails in the head",
    "fixed": "failed in the base and works in the head",
    "partial_capture": "the graph captured only part of the work",
    "physics": "faster than the hardware can be, so the time is not believed",
    "waived": "slower, and accepted by a reviewed waiver",
    "waiver_expired": "a waiver for this row has expired",
    "waiver_over_ceiling": "a waiver exists, and the row is slower than it allows",
    "refused": "the row breaks the results contract and was refused",
    "skipped": "the run skipped it",
    "unsupported": "the candidate does not support this shape",
    "not_configured": "the provider is switched off in the matrix",
    "not_run": "this run did not measure it",
    # of machine code
    "same_code": "the machine code is byte for byte the same",
    "text_differs": "the machine code differs with equal resources",
    "resources_differ": "registers or memory differ",
    "no_longer_compiles": "compiled in the base and not in the head",
    "does_not_compile": "does not compile",
    "not_compiled": "was not compiled",
    "spills_appeared": "registers spill that did not spill before",
    "spills_grew": "more registers spill than before",
    "scratch_appeared": "scratch memory is used that was not used before",
    "lds_over_limit": "more LDS than the GPU has",
    "wave_lost": "fewer waves fit on a SIMD",
    "instructions_grew": "more instructions",
    "vector_loads_lost": "vector loads became scalar ones",
    "vmcnt0_doubled": "twice as many full waits on memory",
    "agprs_appeared": "accumulation registers are used that were not used before",
    # of a run
    "confirmed_regression": "at least one row got slower beyond its ceiling",
    "nothing_measured": "nothing was measured",
    "nothing_compared": "no row could be compared with the base",
    "first_run": "there is no baseline yet, so nothing could be compared",
    "coverage": "fewer rows were judged than the policy asks for",
    "partial_run": "the run did not finish every row",
    "geomean_slower": "the rows together got slower, though no single row shows it",
    "unusable_input": "an input could not be used as a whole",
    "synthetic_only": "only synthetic or diagnostic rows were measured, which never promote",
    "opaque_baseline": "the best baseline does not say what it ran, so it cannot carry a promotion",
    "baseline_absent": "a pinned baseline was not measured",
}


def sentence(code: str) -> str:
    """The sentence of a reason code; a code not in the list reads as its own words."""
    return SENTENCES.get(code, code.replace("_", " "))
