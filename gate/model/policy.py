"""What a policy is: every number and choice that turns measurements into a verdict, with what each one does.

The description of each key is the text that `gate policy explain` prints. Fractions are relative: 0.05 is 5%.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gate.model.policy_noise import Fraction, Noise, Table, doc

Probability = Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)]
# An error rate that is accepted. Below the least, no measurement could ever show anything: a slip of the pen.
ErrorRate = Annotated[float, msgspec.Meta(ge=1e-6, le=0.5)]
EnvironmentField = Literal["gpu", "arch", "rocm_version", "driver_version", "torch_version", "triton_version"]
HotStage = Literal["prefill", "decode", "mixed", "synthetic", "diagnostic", "model_config"]


class Thresholds(Table, frozen=True, kw_only=True):
    """The indifference zone of one row."""

    slower: Annotated[Fraction, doc("A row is slower when a slowdown of more than this is established.")] = 0.01
    not_slower: Annotated[
        Fraction, doc("A row is not slower when the upper bound of its slowdown is below this; between: inconclusive.")
    ] = 0.05


class Ceilings(Table, frozen=True, kw_only=True):
    """Slowdowns that are accepted: a row blocks only when more than its ceiling is established."""

    ops: Annotated[
        dict[str, Fraction], doc("Ceiling of every row of an op, by op_type; default is thresholds.slower.")
    ] = msgspec.field(default_factory=dict)
    shapes: Annotated[dict[str, Fraction], doc("Ceiling of one row, by shape_id; it wins over the op's.")] = (
        msgspec.field(default_factory=dict)
    )


class Screen(Table, frozen=True, kw_only=True):
    """The first test of all rows."""

    fdr: Annotated[ErrorRate, doc("Share of false suspects that is accepted over all looks (Benjamini-Hochberg).")] = (
        0.10
    )
    suspect: Annotated[
        ErrorRate,
        doc(
            "A row that would look this slow by chance this rarely goes to the confirming session, screened or not; "
            "after the last look, five times as readily."
        ),
    ] = 0.02
    looks: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=2, le=64)], ...],
        msgspec.Meta(
            min_length=1,
            max_length=32,
            description="Blocks measured at each declared look, each look in fresh processes; the error is spent "
            "evenly, and only rows that are still open go on.",
        ),
    ] = (4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32)
    interval: Annotated[Probability, doc("Confidence of the intervals that clear a row and are shown (two-sided).")] = (
        0.99
    )
    power: Annotated[Probability, doc("Power at which the minimum detectable effect is stated.")] = 0.90


class Confirm(Table, frozen=True, kw_only=True):
    """The second test, of suspects only."""

    alpha: Annotated[ErrorRate, doc("Chance of any false regression among the suspects (Holm).")] = 0.002
    processes: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=1, le=128)], ...],
        msgspec.Meta(
            min_length=1,
            max_length=8,
            description="Fresh process pairs at each declared look of the confirming session; the error is spent "
            "evenly, and only suspects not yet settled go on.",
        ),
    ] = (8, 16, 32, 64)
    process_blocks: Annotated[
        int, msgspec.Meta(ge=1, le=16, description="Blocks that each of those process pairs measures.")
    ] = 2


class GeomeanGate(Table, frozen=True, kw_only=True):
    """The test of an op and of the run as a whole: small slowdowns everywhere."""

    limit: Annotated[
        Fraction, doc("The run blocks when the geomean of the paired rows is slower by more than this.")
    ] = 0.005
    alpha: Annotated[ErrorRate, doc("and is slower than 0 at this one-sided level.")] = 0.005
    min_rows: Annotated[int, msgspec.Meta(ge=2, description="Fewest paired rows for which the geomean is tested.")] = 4


class Coverage(Table, frozen=True, kw_only=True):
    """How much must have been measured for a green run."""

    measured: Annotated[Fraction, doc("Share of the required rows that must be compared.")] = 1.0
    conclusive: Annotated[Fraction, doc("Share of the compared rows that must have a clear verdict.")] = 0.5
    new: Annotated[Fraction, doc("Largest share of an op's rows that may lack a baseline while others have one.")] = (
        0.25
    )
    accept_still_failing: Annotated[
        bool, doc("Whether rows that fail in base and head alike leave the run green (never a promotion).")
    ] = False


class EnvironmentPolicy(Table, frozen=True, kw_only=True):
    """Which differences of the two stacks make times incomparable; the others are shown."""

    incomparable: Annotated[
        tuple[EnvironmentField, ...], doc("Fields that must be equal in base and head for a timing comparison.")
    ] = ("gpu", "arch", "rocm_version", "driver_version")
    codegen_incomparable: Annotated[tuple[EnvironmentField, ...], doc("The same, for a machine-code comparison.")] = (
        "arch",
    )


class Controls(Table, frozen=True, kw_only=True):
    """The untouched baselines as a control arm."""

    moved: Annotated[
        Fraction, doc("Controls moved when their median change between separate sessions exceeds this.")
    ] = 0.03
    min_rows: Annotated[int, msgspec.Meta(ge=1, description="Fewest control pairs of an op for a statement.")] = 2


class DriftPolicy(Table, frozen=True, kw_only=True):
    """The check against a pinned release: what many small steps add up to."""

    op: Annotated[
        Fraction, doc("An op has drifted when its rows are slower than the pinned release by more than this.")
    ] = 0.05
    alpha: Annotated[
        Probability,
        doc("An op has drifted only if that is established at this one-sided level, the controls taken out."),
    ] = 0.005
    row: Annotated[
        Fraction, doc("A row has drifted when it is slower than this and than the noise floor of its method.")
    ] = 0.05


class StandingPolicy(Table, frozen=True, kw_only=True):
    """From the geomean speedup over the best pinned baseline to the decision."""

    promote: Annotated[Fraction, doc("promote from here, with no hard failure.")] = 1.0
    guardrails: Annotated[Fraction, doc("promote_with_guardrails from here, with no hard failure.")] = 0.95
    tune: Annotated[Fraction, doc("tune_needed from here; below: rewrite_needed.")] = 0.70


class Hot(Table, frozen=True, kw_only=True):
    """Which rows count as hot: shapes of models or of serving traces."""

    stages: Annotated[tuple[HotStage, ...], doc("Stages whose rows are hot.")] = (
        "prefill",
        "decode",
        "mixed",
        "model_config",
    )
    shapes: Annotated[tuple[str, ...], doc("shape_ids that are hot whatever their stage.")] = ()
    min_weight: Annotated[Fraction, doc("A weighted row below this weight is not hot.")] = 0.0


class ClassifyPolicy(Table, frozen=True, kw_only=True):
    """Limits of the classification."""

    ok: Annotated[Fraction, doc("A row at or above this speedup over the best baseline is ok.")] = 0.95
    profile_below: Annotated[Fraction, doc("A hot, stable row below this speedup is worth a profiler run.")] = 0.90
    algorithm_below: Annotated[Fraction, doc("Below this speedup tuning cannot be the explanation.")] = 0.50
    roofline_share: Annotated[Fraction, doc("A row at this share of the GPU's peak is limited by the roofline.")] = 0.70


class CodegenPolicy(Table, frozen=True, kw_only=True):
    """What machine-code findings mean for the run."""

    warn: Annotated[
        Literal["inconclusive", "block", "unchanged"], doc("The verdict of a row whose code comparison says warn.")
    ] = "inconclusive"
    instruction_growth: Annotated[Fraction, doc("Instructions that grow by more than this are a warning.")] = 0.05
    full_waits_factor: Annotated[
        float, msgspec.Meta(gt=1.0, le=100.0, description="Full memory waits that grow by this factor are a warning.")
    ] = 2.0
    occupancy_bound: Annotated[
        tuple[str, ...], doc("Ops where a lost wave fails, besides those whose kernels declare it themselves.")
    ] = ()
    not_occupancy_bound: Annotated[
        tuple[str, ...], doc("Ops where a lost wave only warns although their kernels declare it.")
    ] = ()
    same_code: Annotated[
        Literal["skip", "sample"],
        doc("What a GPU run does with rows whose machine code is equal: skip them, or keep some as A/A samples."),
    ] = "skip"
    same_code_samples: Annotated[
        int, msgspec.Meta(ge=1, le=1000, description="How many rows of equal code an op keeps as A/A samples.")
    ] = 3


class PhysicsPolicy(Table, frozen=True, kw_only=True):
    """The check that a time is possible at all."""

    enabled: Annotated[bool, doc("Whether times below the hardware's lower bound are rejected.")] = True
    slack: Annotated[Fraction, doc("A time is impossible below the bound times 1 - this.")] = 0.05


class Policy(Table, frozen=True, kw_only=True):
    """The whole policy file."""

    thresholds: Thresholds = Thresholds()
    ceilings: Ceilings = Ceilings()
    screen: Screen = Screen()
    confirm: Confirm = Confirm()
    geomean: GeomeanGate = GeomeanGate()
    noise: Noise = Noise()
    coverage: Coverage = Coverage()
    environment: EnvironmentPolicy = EnvironmentPolicy()
    controls: Controls = Controls()
    drift: DriftPolicy = DriftPolicy()
    standing: StandingPolicy = StandingPolicy()
    hot: Hot = Hot()
    classify: ClassifyPolicy = ClassifyPolicy()
    codegen: CodegenPolicy = CodegenPolicy()
    physics: PhysicsPolicy = PhysicsPolicy()
