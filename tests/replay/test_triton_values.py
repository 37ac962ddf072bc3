"""The Triton kernels' values against the fp32 reference, in Triton's interpreter; odd sizes included."""

from __future__ import annotations

from tests.needs import needs_triton
from tests.replay.interpreted import findings
from tests.replay.on_cpu import case_for

pytestmark = needs_triton

CASES = (
    case_for("rmsnorm", "bf16", M=3, N=40, eps=1e-5),
    case_for("rmsnorm", "fp32", M=1, N=1001, eps=1e-6),
    case_for("softmax", "bf16", M=7, N=33),
    case_for("softmax", "fp32", M=1, N=513),
    case_for("vec_add", "bf16", N=4099),
)


def test_rows_and_elements() -> None:
    found = findings("gate.replay.providers.triton", CASES)
    assert dict(zip(map(str, CASES), found, strict=True)) == {str(case): [] for case in CASES}
