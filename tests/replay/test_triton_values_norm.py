"""The Triton kernels of rows, codes and rotation against the fp32 reference, in Triton's interpreter.

Eight-bit floats are left to a GPU: the interpreter loses the carry where rounding reaches the next power of two.
"""

from __future__ import annotations

from tests.needs import needs_triton
from tests.replay.interpreted import findings
from tests.replay.on_cpu import case_for
from tests.replay.test_ops_norm import NORMS, ROPES

pytestmark = needs_triton

# Longer than a program keeps in registers, and no multiple of what it loops by.
LONG = 33001
# A block and a shorter one.
TWO = 2500
CASES = (
    *(case_for(name, "bf16", M=3, N=40, eps=1e-5) for name in NORMS),
    *(case_for(name, "fp32", M=1, N=1001, eps=1e-5) for name in NORMS),
    *(case_for(name, "f16", M=2, N=LONG, eps=1e-5) for name in NORMS),
    *(case_for(name, "bf16", M=3, N=TWO, eps=1e-5) for name in NORMS),
    case_for("quant", "bf16", M=7, N=33, out_dtype="int8"),
    case_for("quant", "f16", M=1, N=513, out_dtype="int8"),
    case_for("quant", "bf16", M=2, N=LONG, out_dtype="int8"),
    case_for("softmax", "bf16", M=2, N=LONG),
    *ROPES,
)


def test_rows_codes_and_rotation() -> None:
    found = findings("gate.replay.providers.triton", CASES)
    assert dict(zip(map(str, CASES), found, strict=True)) == {str(case): [] for case in CASES}
