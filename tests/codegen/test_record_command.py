"""`gate codegen record` with the installed flydsl: the package's kernels and those of a checkout full of bad ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.codegen.toolchains import CANARIES
from tests.codegen.records import ledger
from tests.needs import needs_flydsl

pytestmark = pytest.mark.usefixtures("own_cache")


@needs_flydsl
def test_record_compiles_once_a_key_and_the_baseline_is_the_same_bytes_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("rmsnorm", {"M": 1, "N": 512}), ("rmsnorm", {"M": 2, "N": 512}), ("softmax", {"M": 1, "N": 10**6})]
    ledgers = tmp_path / "led gers"
    ledger(ledgers, *rows)
    out = tmp_path / "out"
    assert run(["codegen", "record", "--out", str(out), "--ledgers", str(ledgers), "--jobs", "1"]) == 0
    assert "3 shapes, 1 compile key: 1 ok; 1 shape has no code" in capsys.readouterr().err
    plan = [json.loads(line) for line in (out / "codegen_plan.jsonl").read_text().splitlines()]
    assert [line["compile_key"] for line in plan] == ["rmsnorm/bf16/N=512"] * 2 + [None]
    baseline = ledgers / "rmsnorm" / "baselines" / "gfx950" / store.CODEGEN_FILE
    assert run(["codegen", "record", "--as-baseline", str(ledgers), "--jobs", "1"]) == 0
    assert f"lock it with: gate ledger freeze '{ledgers}'\n" in capsys.readouterr().err
    first = baseline.read_bytes()
    shutil.rmtree(tmp_path / "cache")
    assert run(["codegen", "record", "--as-baseline", str(ledgers), "--jobs", "1"]) == 0
    assert baseline.read_bytes() == first
    assert run(["codegen", "diff", str(ledgers), str(out)]) == 0
    assert run(["codegen", "show", "rmsnorm", "--base", str(ledgers), "--head", str(out)]) == 0
    assert "base: no loop, straight code" in capsys.readouterr().out


FLYDSL_LIKE = {
    "kernels/norm/rmsnorm_kernel.py": (
        "import sys\nfrom pathlib import Path\nimport torch\n"
        "sys.path.insert(0, str(Path(__file__).parents[2] / 'canaries'))\n"
        "from rmsnorm import build\n"
        "class Wrapper(torch.autograd.Function): ...\n"
        "def build_rmsnorm_module(N, dtype_str, store_rstd=False, weight_dtype_str=None):\n"
        "    if store_rstd:\n"
        "        raise ValueError('store_rstd needs N of at most 2048')\n"
        "    launcher, _ = build(dtype_str, N=N)\n"
        "    return lambda Input, Gamma, Output, m_in: launcher(Input, Gamma, Output, m_in)\n"
    ),
    "kernels/norm/softmax_kernel.py": (
        "import os, sys\ndef build_softmax_module(N, dtype_str):\n"
        "    print('LLVM ERROR: Cannot select', file=sys.stderr, flush=True)\n    os.abort()\n"
    ),
    "kernels/norm/layernorm_kernel.py": "def build_layernorm_module(rows, columns): ...\n",
    "kernels/moe/topk_gating_softmax_kernel.py": (
        "import time\ndef build_topk_gating_softmax_module(num_experts, topk, dtype_str):\n    time.sleep(600)\n"
    ),
}


@needs_flydsl
def test_a_checkout_with_every_kind_of_bad_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "FlyDSL"
    shutil.copytree(CANARIES, root / "canaries", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FLYDSL_LIKE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    out, ledgers = tmp_path / "out", ledger(tmp_path / "led", ("topk_gating_softmax", {"num_experts": 8, "topk": 2}))
    ops = [
        part for op in ("rmsnorm", "softmax", "layernorm", "topk_gating_softmax", "mla_decode") for part in ("--op", op)
    ]
    arguments = ["--flydsl-checkout", str(root), "--ledgers", ledgers, "--jobs", "2", "--timeout", "4"]
    assert run(["codegen", "record", "--out", str(out), *ops, *arguments]) == 0
    found = {
        key: (one.status, one.error or "") for key, one in store.read_codegen(sorted(out.glob("*/*.jsonl"))).items()
    }
    good = [status for key, (status, _) in found.items() if key.startswith("rmsnorm/") and "store_rstd" not in key]
    assert len(good) >= 8 and set(good) == {"ok"}
    rstd = next(value for key, value in found.items() if "store_rstd" in key)
    assert rstd == ("unsupported", "store_rstd needs N of at most 2048")
    aborted = {value for key, value in found.items() if key.startswith("softmax/")}
    assert aborted == {("crashed", "SIGABRT: LLVM ERROR: Cannot select")}
    changed = {value[1] for key, value in found.items() if key.startswith("layernorm/")}
    assert any("API changed: expected build_layernorm_module(N, dtype_str)" in error for error in changed)
    assert found["topk_gating_softmax/bf16/num_experts=8,topk=2"] == ("timeout", "no answer within 4 s")
    assert found["mla_decode/fp8/"][0] == "unsupported" and "this checkout has no" in found["mla_decode/fp8/"][1]
    assert "1 of the ledgers" in capsys.readouterr().err
    assert len([key for key in found if key.startswith("topk_gating_softmax/")]) == 1
