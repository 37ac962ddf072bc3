"""What a policy table is, and the table of noise: how much two measurements of the same code differ."""

from __future__ import annotations

from typing import Annotated

import msgspec

Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=10.0)]
PerStratum = Annotated[tuple[Fraction, ...], msgspec.Meta(min_length=5, max_length=5)]


def doc(text: str) -> msgspec.Meta:
    """The description of a policy key."""
    return msgspec.Meta(description=text)


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the policy file; an unknown key is refused."""


class Floor(Table, frozen=True, kw_only=True):
    """Noise of stored summaries of one timing method, per time stratum (shortest kernels first)."""

    within: Annotated[PerStratum, doc("A difference up to this is noise: unchanged.")]
    limit: Annotated[PerStratum, doc("A difference above this is real; between the two: inconclusive.")]


class Noise(Table, frozen=True, kw_only=True):
    """How much two measurements of the same code differ, where the run itself cannot tell."""

    strata_us: Annotated[
        tuple[float, ...],
        msgspec.Meta(
            min_length=4, max_length=4, description="Upper edges of the first four time strata, in microseconds."
        ),
    ] = (2.5, 5.0, 10.0, 50.0)
    process_sd: Annotated[
        Fraction,
        doc("Standard deviation of log(head/base) between process pairs of one session; blocks cannot show it."),
    ] = 0.0015
    process_share: Annotated[
        Annotated[float, msgspec.Meta(ge=0.0, le=0.9)],
        doc("Share of a visit's variance that sticks to its process; blocks of one process cannot show it either."),
    ] = 0.4
    min_sd: Annotated[Fraction, doc("Smallest standard deviation of one block that is believed.")] = 0.0005
    min_blocks: Annotated[
        int,
        msgspec.Meta(
            ge=3, le=64, description="Fewest paired blocks for a test; with fewer, the summaries are compared."
        ),
    ] = 4
    graph_slope: Annotated[Floor, doc("Separate sessions, slope over a rotating ring.")] = Floor(
        within=(0.03, 0.03, 0.02, 0.02, 0.02), limit=(0.12, 0.10, 0.08, 0.06, 0.06)
    )
    device_timestamps: Annotated[Floor, doc("Separate sessions, profiler timestamps.")] = Floor(
        within=(0.06, 0.05, 0.04, 0.03, 0.03), limit=(0.25, 0.20, 0.15, 0.10, 0.10)
    )
    cudagraph: Annotated[Floor, doc("The one-launch graph, which carries the launch floor.")] = Floor(
        within=(0.10, 0.10, 0.08, 0.056, 0.05), limit=(0.60, 0.60, 0.55, 0.45, 0.45)
    )
    eager_event: Annotated[Floor, doc("Eager calls between events, launch overhead included.")] = Floor(
        within=(0.20, 0.20, 0.15, 0.15, 0.10), limit=(1.0, 1.0, 0.8, 0.6, 0.4)
    )
    cpu_wall: Annotated[Floor, doc("Wall time on the host.")] = Floor(
        within=(0.30, 0.30, 0.30, 0.25, 0.20), limit=(1.5, 1.5, 1.2, 1.0, 0.8)
    )
    launch_floor_us: Annotated[
        dict[str, float],
        doc("One-launch graph floor by a word in the GPU's name, used where the run has too few rows to show its own."),
    ] = msgspec.field(default_factory=lambda: {"MI350X": 12.8, "H200": 4.2})
    floor_share: Annotated[Fraction, doc("A one-launch row within this of the launch floor is floor_limited.")] = 0.20
    unstable: Annotated[Fraction, doc("A row whose p90 over p10 exceeds 1 + this is unstable.")] = 0.20
