"""What each reason code means, in one sentence for people."""

from __future__ import annotations

from collections.abc import Collection

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
    "shared_arm": "the row was measured as a baseline, in an arm that base and head share",
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
    "fails": "fails in the head",
    "wrong": "gives wrong results in the head",
    "under_ceiling": "slower, but not by more than the ceiling that the policy grants this row",
    "wide_interval": "the interval is too wide to exclude a slowdown that matters",
    "above_noise": "more than the usual noise, and less than stored summaries can prove",
    "unconfirmed": "the screen suspects a slowdown that the confirming session did not establish",
    "awaits_confirmation": "looks slower among all rows, and only a confirming session can tell",
    "summaries_only": "only summaries of separate sessions were compared, with the policy's noise floor",
    "separate_sessions": "base and head were measured in separate sessions, with the policy's noise floor",
    "no_control": "no untouched baseline ran in both sessions to show whether the machine moved",
    "too_few_blocks": "too few paired blocks for a test, so the summaries were compared",
    "blocks_disagree": "the time is not among the row's own blocks, so neither is believed",
    "not_repeated": "the row says that nothing was repeated, so its time was not measured",
    "unequal_blocks": "base and head have different numbers of blocks, and the surplus was left out",
    "refused_partly": "another row of the same identity was refused, and the good one counts",
    "method_unknown": "the row does not say how it was timed",
    "not_verified": "nobody checked the output, so the time counts for nothing",
    "mixed_kinds": "times and machine code cannot be mixed in one comparison",
    "no_matrix": "the op has no baseline matrix",
    "newly_unsupported": "measured in the base and declared unsupported in the head",
    "reference_only": "the only baseline with a time is the reference implementation",
    "incumbent_from_head": "the best baseline was chosen on the samples it is compared on",
    "unmatched_baseline": "the best baseline times more work than the candidate",
    # of machine code
    "code_differs": "the machine code differs with equal resources",
    "codegen_warn": "the machine code changed in a way that may cost time",
    "codegen_fail": "the machine code changed in a way known to cost time",
    "code_unjudged": "the machine code differs and nothing at hand says how",
    "no_time_measured": "machine code was compared and no time was measured",
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
    "nothing_ran": "no row of the head ran; each has its reason",
    "nothing_compared": "no row could be compared with the base",
    "no_kernel_changed": "no file was changed that a kernel could see",
    "run_unfinished": "the run that measured did not end well",
    "not_finished": "the run broke off before everything was measured",
    "first_run": "there is no baseline yet, so nothing could be compared",
    "coverage": "fewer rows were judged than the policy asks for",
    "partial_run": "the run did not finish every row",
    "geomean_slower": "the rows together got slower by more than the policy allows",
    "unusable_input": "an input could not be used as a whole",
    "synthetic_only": "only synthetic or diagnostic rows were measured, which never promote",
    "opaque_baseline": "the best baseline does not say what it ran, so it cannot carry a promotion",
    "clean": "every required row was compared and none is slower",
    "ledger_refused": "the ledger is not as it was frozen, or rows of it were refused; the problems name the files",
    "refused_rows": "result rows were refused while reading",
    "mostly_inconclusive": "fewer rows of the run or of one op have a clear verdict than the policy asks for",
    "suspects_unconfirmed": "rows look slower, and no confirming session has settled them",
    "mostly_new": "more rows of one op have no baseline than the policy accepts",
    "cannot_fail": "the declared number of blocks could not show a slowdown that matters",
    "hard_failure": "a hot row fails or is wrong",
    "parity": "at least as fast as the best pinned baseline",
    "near_parity": "close to the best pinned baseline",
    "below_parity": "behind the best pinned baseline",
    "far_below_parity": "far behind the best pinned baseline",
    "no_standing": "the pinned baselines gave nothing to stand against",
    "baseline_absent": "a pinned baseline was not measured",
}
# Of a comparison of stored summaries, however they came about.
STORED = frozenset({"summaries_only", "separate_sessions", "too_few_blocks"})
SETTLED_BY = {
    "suspect": "measure the suspects again with the command below, then judge with --confirm",
    "stored": "measure base and head in one session (gate run --replay), or give the rows of both one session_id and "
    "blocks_us, then judge again",
    "floor": "kernels as short as an empty launch show nothing: compare their machine code with gate run",
    "blocks": "measure more blocks in one session, then judge again",
}


def open_kind(reasons: Collection[str]) -> str:
    """The key of `SETTLED_BY` for a row that was compared and is open, by its reason codes."""
    if "awaits_confirmation" in reasons:
        return "suspect"
    if not STORED.isdisjoint(reasons):
        return "stored"
    return "floor" if "floor_limited" in reasons else "blocks"


def sentence(code: str) -> str:
    """The sentence of a reason code; a code not in the list reads as its own words."""
    return SENTENCES.get(code, code.replace("_", " "))
