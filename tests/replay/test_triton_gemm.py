"""Values of the Triton matrix products and mixtures of experts in Triton's interpreter; odd sizes included."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gate.replay.op import Case
from tests.needs import needs_triton
from tests.replay.interpreted import findings
from tests.replay.on_cpu import case_for

pytestmark = needs_triton

TRITON = "gate.replay.providers.triton"
PRODUCTS = (
    case_for("gemm", "f16", M=3, N=40, K=72),
    case_for("gemm", "bf16", M=70, N=72, K=136),
    # K in several parts, with the last of them short.
    case_for("gemm", "bf16", M=1, N=24, K=1400),
    case_for("preshuffle_gemm", "bf16", M=5, N=72, K=264),
    case_for("preshuffle_gemm", "fp8", M=1, N=80, K=1056),
    case_for("preshuffle_gemm", "int8", M=20, N=80, K=1056),
    case_for("preshuffle_gemm", "fp4", M=5, N=72, K=1056),
    case_for("fp8_gemm_rowscale", "fp8", M=17, N=48, K=560),
    case_for("blockscale_preshuffle_gemm", "fp8", M=9, N=200, K=592),
    case_for("batched_gemm", "bf16", B=3, M=9, N=40, K=128),
    case_for("batched_gemm", "f16", B=2, M=1, N=40, K=640),
    case_for("batched_gemm", "int8", B=3, M=9, N=40, K=128),
    case_for("batched_gemm", "fp4", B=2, M=9, N=40, K=96),
    case_for("batched_gemm", "mixed_a16w4", B=2, M=9, N=40, K=128),
)
EXPERTS = (
    case_for("moe_gemm", "fp8", M=5, E=4, TopK=2, Dim1=144, Dim2=160),
    case_for("moe_gemm", "int8", M=1, E=4, TopK=2, Dim1=144, Dim2=160),
    case_for("moe_gemm", "fp4", M=5, E=4, TopK=3, Dim1=96, Dim2=160),
    case_for("moe_gemm", "mixed_a8w4", M=9, E=4, TopK=1, Dim1=96, Dim2=144),
    # The blocks of up begin within one of gate's, and an expert has more tokens than a tile has rows.
    case_for("moe_blockscale", "fp8", M=40, E=2, TopK=2, Dim1=144, Dim2=400),
)
AS_ON_AMD = (
    case_for("preshuffle_gemm", "bf16", M=2, N=24, K=1400),
    case_for("batched_gemm", "int8", B=3, M=2, N=24, K=2100),
    # In tiles of many rows, the last one short.
    case_for("blockscale_preshuffle_gemm", "fp8", M=513, N=136, K=272),
)


@pytest.mark.parametrize(
    ("package", "cases"),
    [(TRITON, PRODUCTS), (TRITON, EXPERTS), ("tests.replay.triton_as_on_amd", AS_ON_AMD)],
    ids=["products", "experts", "as_on_amd"],
)
def test_values(package: str, cases: Sequence[Case]) -> None:
    found = findings(package, cases)
    assert dict(zip(map(str, cases), found, strict=True)) == {str(case): [] for case in cases}
