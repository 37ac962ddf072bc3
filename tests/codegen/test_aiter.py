"""AITER's Triton functions as compile cases, and the worker that sees their launches, with a Triton that echoes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate.codegen import aiter_cases, cache
from gate.codegen.compile import TRITON_WORKER, compile_cases
from gate.codegen.keys import CompileCase, Unsupported
from gate.codegen.toolchains import find_triton
from gate.commands.codegen_inputs import compiled_triton
from gate.model.problem import UnusableInput
from tests.codegen.records import shape
from tests.needs import needs_triton


def case(op_type: str = "softmax", dtype: str = "bf16", **args: Any) -> CompileCase:
    found = aiter_cases.compile_case(shape(op_type, dtype, args or {"M": 2, "N": 64}))
    assert isinstance(found, CompileCase)
    return found


@pytest.mark.parametrize(
    ("op_type", "dtype", "args", "key"),
    [
        ("rmsnorm", "bf16", {"M": 7, "N": 4096, "eps": 1e-6}, "rmsnorm/bf16/aiter_triton,M=7,N=4096"),
        ("layernorm", "fp32", {"M": 7, "N": 64}, "layernorm/f32/aiter_triton,M=7,N=64"),
        ("gemm", "f16", {"M": 1, "N": 512, "K": 64}, "gemm/f16/aiter_triton,M=1,N=512,K=64"),
    ],
)
def test_a_shape_is_a_call(op_type: str, dtype: str, args: dict[str, Any], key: str) -> None:
    found = case(op_type, dtype, **args)
    assert found.compile_key == key
    assert aiter_cases.case_of(found.op_type, found.dtype, found.constexprs) == found


def test_a_product_is_called_with_the_dtype_of_its_result() -> None:
    asked = case("gemm", "f16", M=1, N=512, K=64).parts[0].values
    assert asked == {"dtype": "float16", "arguments": [[1, 64], [512, 64], None, "float16"]}


@pytest.mark.parametrize(
    ("op_type", "dtype", "args", "words"),
    [
        ("vec_add", "bf16", {"N": 8}, "no Triton function of AITER is known for vec_add"),
        ("gemm", "f32", {"M": 1, "N": 8, "K": 8}, "known for gemm f32"),
        ("softmax", "bf16", {"M": 0, "N": 8}, "M must be a positive integer"),
    ],
)
def test_a_shape_without_a_function_says_why(op_type: str, dtype: str, args: dict[str, Any], words: str) -> None:
    found = aiter_cases.compile_case(shape(op_type, dtype, args))
    assert isinstance(found, Unsupported) and words in found.reason


# A Triton that answers with what it was asked, and a torch whose tensors hold nothing.
ECHO = {
    "triton/__init__.py": "from triton.runtime.jit import JITFunction\n",
    "triton/runtime/__init__.py": (
        "class Driver:\n    def set_active(self, active):\n        self.active = active\ndriver = Driver()\n"
    ),
    "triton/runtime/jit.py": (
        "import inspect\nfrom types import SimpleNamespace as S\n"
        "class JITFunction:\n"
        "    def __init__(self, fn):\n        self.fn = fn\n"
        "        self.params = [S(name=n, is_constexpr=n.isupper(), do_not_specialize=n.startswith('plain'))\n"
        "                       for n in inspect.signature(fn).parameters]\n"
        "    def __getitem__(self, grid):\n"
        "        return lambda *a, **k: self.run(*a, grid=grid, warmup=False, **k)\n"
        "    def run(self, *args, grid, warmup, **named):\n        raise RuntimeError('no GPU here')\n"
    ),
    "triton/compiler/__init__.py": (
        "from types import SimpleNamespace as S\n"
        "class ASTSource(S): pass\n"
        "def compile(source, target, options):\n"
        "    asked = [source.fn.fn.__name__, source.signature, source.constexprs, source.attrs, options, target.a]\n"
        "    print('compiled', flush=True)\n"
        "    return S(metadata=S(shared=48), asm={'amdgcn': f'.group_segment_fixed_size: 0\\n{asked!r}'})\n"
    ),
    "triton/backends/__init__.py": "",
    "triton/backends/compiler.py": (
        "class GPUTarget:\n    def __init__(self, *a):\n        self.a, self.arch = a, a[1]\n"
    ),
    "triton/backends/amd/__init__.py": "",
    "triton/backends/amd/compiler.py": (
        "class HIPBackend:\n    @staticmethod\n    def parse_attr(text):\n        return text\n"
    ),
    "torch/__init__.py": (
        "import math\nfrom types import SimpleNamespace as S\ncuda = S()\n"
        "float16, bfloat16 = 'torch.float16', 'torch.bfloat16'\n"
        "class Tensor(S):\n"
        "    def element_size(self):\n        return 2\n"
        "    def numel(self):\n        return math.prod(self.shape)\n"
        "def empty(shape, dtype):\n    return Tensor(shape=shape, dtype=dtype)\n"
    ),
}
SOFTMAX = (
    "import os, torch, triton\n"
    "def rows(x, plain_n, n, m, eps, absent, BLOCK, late=None): ...\n"
    "kernel = triton.JITFunction(rows)\n"
    "def softmax(x):\n"
    "    m, n = x.shape\n"
    "    assert os.environ['AITER_TRITON_ONLY'] == '1'\n"
    "    units = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count\n"
    "    kernel[(m,)](x, n, n, m, 0.5, None, BLOCK=units, num_warps=8)\n"
)


def checkout(root: Path, softmax: str = SOFTMAX) -> Path:
    folder = root / "aiter" / "ops" / "triton"
    folder.mkdir(parents=True)
    (folder / "softmax.py").write_text(softmax)
    return root


def answers(tmp_path: Path, kernels: Path, *cases: CompileCase, fake: bool = True) -> tuple[list[dict[str, Any]], str]:
    """What the worker says to each case, after its greeting, and what it said on standard error."""
    for name, text in ECHO.items() if fake else ():
        (tmp_path / "fake" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fake" / name).write_text(text)
    asked = "".join(json.dumps(msgspec.to_builtins(one)) + "\n" for one in cases)
    done = subprocess.run(
        [sys.executable, str(TRITON_WORKER), "--kernels", str(kernels), "--arch", "gfx950"],
        env={"PYTHONPATH": str(tmp_path / "fake"), "PYTHONDONTWRITEBYTECODE": "1"},
        input=asked,
        capture_output=True,
        text=True,
        check=False,
    )
    greeting, *said = [json.loads(line) for line in done.stdout.splitlines()]
    assert greeting["status"] == "ok", greeting
    return said, done.stderr


def test_a_launch_is_compiled_as_triton_would_specialise_it(tmp_path: Path) -> None:
    cases = [case(M=2, N=64), case(M=1, N=64), case(M=2, N=64), case(M=2**20, N=1024)]
    said, noise = answers(tmp_path, checkout(tmp_path / "aiter"), *cases)
    signature = {
        "x": "*bf16",
        "plain_n": "i32",
        "n": "i32",
        "m": "i32",
        "eps": "fp32",
        "absent": "constexpr",
        "BLOCK": "constexpr",
        "late": "constexpr",
    }
    constants = {"absent": None, "BLOCK": 256, "late": None}
    rest = [{(0,): "DS", (2,): "D"}, {"num_warps": 8}, ("hip", "gfx950", 64)]
    assert said[0]["isa"] == f".group_segment_fixed_size: 48\n{['rows', signature, constants, *rest]!r}"
    one = {**signature, "m": "constexpr"}
    assert f"{one!r}, { ({'m': 1, **constants})!r}" in said[1]["isa"]
    assert said[2]["isa"] == said[0]["isa"] and noise.count("compiled") == 3
    assert "{(0,): 'D', (2,): 'D', (3,): 'D'}" in said[3]["isa"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_such\n", "not importable: ModuleNotFoundError: No module named 'nothing_such'"),
        ("x = 1\n", "not importable: AttributeError"),
        ("def softmax(x):\n    raise ValueError('rows of 8')\n", "does not launch it: ValueError: rows of 8"),
        ("def softmax(x):\n    return x\n", "launches no Triton kernel"),
    ],
)
def test_what_aiter_does_not_launch_is_unsupported_with_its_reason(tmp_path: Path, text: str, words: str) -> None:
    said, _ = answers(tmp_path, checkout(tmp_path / "aiter", text), case(), case("rmsnorm"))
    assert said[0]["status"] == "unsupported" and words in said[0]["error"]
    absent = "this checkout has no aiter.ops.triton.normalization.rmsnorm or aiter.ops.triton.rmsnorm"
    assert said[1]["status"] == "unsupported" and absent in said[1]["error"]


def test_a_kernel_that_triton_refuses_has_failed(tmp_path: Path) -> None:
    text = SOFTMAX.replace("0.5", "object()")
    (said,), _ = answers(tmp_path, checkout(tmp_path / "aiter", text), case())
    assert said["status"] == "failed" and "no type for a kernel's argument: object" in said["error"]


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    limits = {"arch": "gfx950", "jobs": 1, "timeout": 9.0}
    with pytest.raises(UnusableInput, match="no aiter/ops/triton folder here"):
        compiled_triton([case()], sys.executable, limits, aiter=tmp_path)


REAL = (
    "import torch, triton\nimport triton.language as tl\n"
    "@triton.jit\n"
    "def double(x, out, n, BLOCK: tl.constexpr):\n"
    "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)\n"
    "def softmax(x):\n"
    "    out = torch.empty_like(x)\n"
    "    double[(1,)](x, out, x.numel(), BLOCK=256, num_warps=4)\n"
    "    return out\n"
)


@needs_triton
def test_a_real_launch_is_a_record_of_aiter(tmp_path: Path) -> None:
    root = checkout(tmp_path / "aiter", REAL)
    tools = find_triton(python=sys.executable, kernels=root, arch="gfx950")
    found, again = compile_cases([case(), case(M=4, N=64)], kernels_dir=root, toolchain=tools, jobs=1)
    assert found.metrics is not None and found.provider == "aiter_triton" and found.kernel == "double"
    assert found.isa_sha == again.isa_sha
    assert cache.case_of(found) == case()
