"""The worker against kernels that raise, abort, hang, spill or are missing, and against FlyDSL itself."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from gate.codegen.compile import cached_isa, compile_cases
from gate.codegen.diff import compare
from gate.codegen.keys import CompileCase
from gate.codegen.pool import Pool, StartError
from gate.codegen.toolchains import CANARIES, ToolchainError, find_toolchain, find_triton
from gate.model.codegen import CodegenRecord
from tests.needs import needs_flydsl

BAD_KERNELS = {
    "raises": 'def build(dtype):\n    raise ValueError("first line\\nsecond line")\n',
    "aborts": (
        "import os, sys\n"
        "def build(dtype):\n"
        "    print('LLVM ERROR: Cannot select: intrinsic', file=sys.stderr, flush=True)\n"
        "    print('Stack dump:', file=sys.stderr, flush=True)\n"
        "    os.abort()\n"
    ),
    "hangs": "import time\ndef build(dtype):\n    time.sleep(600)\n",
    "prints": 'def build(dtype):\n    print("{}")\n    raise KeyError("after printing")\n',
    "nothing": "value = 1\n",
    "broken": "def build(dtype:\n",
}


def case(op_type: str, dtype: str = "bf16", **constexprs: int) -> CompileCase:
    key = f"{op_type}/{dtype}/" + ",".join(f"{name}={value}" for name, value in constexprs.items())
    return CompileCase(compile_key=key, op_type=op_type, dtype=dtype, constexprs=dict(constexprs))


RMSNORM = case("rmsnorm", N=4096)
VEC_ADD = case("vec_add", width=8)


@pytest.fixture(scope="module")
def bad_records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CodegenRecord]:
    """One run over every kind of bad kernel, with good ones before, between and after."""
    kernels = tmp_path_factory.mktemp("kernels") / "canaries"
    shutil.copytree(CANARIES, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in BAD_KERNELS.items():
        (kernels / f"{name}.py").write_text(text)
    cases = [VEC_ADD, case("aborts"), RMSNORM, case("hangs"), *map(case, ("raises", "prints", "nothing", "broken"))]
    cases += [case("absent"), case("rmsnorm", N=2048, typo=1), case("softmax", N=2048)]
    records = compile_cases(cases, kernels_dir=kernels, jobs=2, timeout_s=3.0)
    assert [record.compile_key for record in records] == [item.compile_key for item in cases]
    return {record.op_type if record.op_type != "rmsnorm" else record.compile_key: record for record in records}


@needs_flydsl
@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("raises", "failed", "ValueError: first line | second line"),
        ("aborts", "crashed", "SIGABRT: LLVM ERROR: Cannot select: intrinsic"),
        ("hangs", "timeout", "no answer within 3 s"),
        ("prints", "failed", "KeyError: 'after printing'"),
        ("nothing", "unsupported", "nothing.py has no build(dtype, **constexprs)"),
        ("broken", "failed", "SyntaxError"),
        ("absent", "unsupported", "no absent.py in the kernels directory"),
        ("rmsnorm/bf16/N=2048,typo=1", "unsupported", "API changed: expected build(dtype, N, typo)"),
    ],
)
def test_a_bad_kernel_is_a_record_of_its_own(
    bad_records: dict[str, CodegenRecord], name: str, status: str, words: str
) -> None:
    record = bad_records[name]
    assert record.status == status and record.metrics is None and record.isa_sha is None
    assert record.error is not None and words in record.error and "\n" not in record.error


@needs_flydsl
def test_the_other_cases_are_unharmed(bad_records: dict[str, CodegenRecord]) -> None:
    good = [bad_records[name] for name in ("vec_add", "rmsnorm/bf16/N=4096", "softmax")]
    assert [record.status for record in good] == ["ok"] * 3


@needs_flydsl
def test_two_processes_give_the_same_bytes_and_the_cache_gives_them_again(tmp_path: Path) -> None:
    seen: list[str] = []
    first = compile_cases([RMSNORM, VEC_ADD, RMSNORM], jobs=2, cache_dir=tmp_path / "a")
    second = compile_cases([VEC_ADD, RMSNORM], jobs=1, cache_dir=tmp_path / "b")
    assert [record.compile_key for record in first] == [RMSNORM.compile_key, VEC_ADD.compile_key]
    assert {r.compile_key: r.isa_sha for r in first} == {r.compile_key: r.isa_sha for r in second}
    assert cached_isa(first[0], tmp_path / "a") == cached_isa(second[1], tmp_path / "b")
    started = time.monotonic()
    again = compile_cases(
        [RMSNORM, VEC_ADD],
        cache_dir=tmp_path / "a",
        toolchain=first[0].toolchain,
        on_record=lambda record: seen.append(record.compile_key),
    )
    assert again == first and seen == [RMSNORM.compile_key, VEC_ADD.compile_key]
    assert time.monotonic() - started < 0.3


@needs_flydsl
def test_a_canary_made_to_spill_fails_against_the_good_one(tmp_path: Path) -> None:
    kernels = tmp_path / "canaries"
    shutil.copytree(CANARIES, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    rows = kernels / "rows.py"
    rows.write_text(rows.read_text().replace("THREADS = 256", "THREADS = 64"))
    wide = case("softmax", "f32", N=28672)
    (good,) = compile_cases([wide])
    (bad,) = compile_cases([wide], kernels_dir=kernels)
    assert good.metrics is not None and good.metrics.spills == 0
    assert bad.metrics is not None and bad.metrics.spills > 0
    assert good.toolchain.kernels_sha != bad.toolchain.kernels_sha
    change = compare(good, bad)
    assert change.verdict == "fail"
    assert {"spills_appeared", "scratch_appeared"} <= {finding.code for finding in change.findings}


@needs_flydsl
def test_the_gemm_tile_uses_mfma_lds_and_a_real_loop() -> None:
    short, long = compile_cases([case("gemm", K=k, block_m=128, block_n=128, block_k=64) for k in (1024, 8192)])
    assert short.metrics is not None and long.metrics is not None
    assert short.metrics.instructions == long.metrics.instructions
    assert short.metrics.lds_bytes == 2 * 128 * 64 * 2
    assert any(name.startswith("v_mfma_f32_16x16") for name in short.metrics.mix)
    assert short.metrics.mix["ds_read_b128"] and short.metrics.mix["buffer_load_dwordx4"]


@needs_flydsl
def test_the_toolchain_names_the_wheel_and_its_llvm() -> None:
    toolchain = find_toolchain()
    assert toolchain.flydsl_version[0].isdigit()
    assert "git " in toolchain.llvm and len(toolchain.llvm.rsplit(" ", 1)[-1]) == 40
    assert (toolchain.kernels, toolchain.arch) == ("canaries", "gfx950")


@pytest.mark.parametrize("body", ['exec {python} -S -E -I "$@"', "exit 1"])
def test_an_interpreter_without_flydsl_is_one_clear_error(tmp_path: Path, body: str) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\n" + body.format(python=sys.executable) + "\n")
    bare.chmod(0o755)
    with pytest.raises(ToolchainError) as refusal:
        find_toolchain(python=str(bare))
    message = str(refusal.value)
    assert str(bare) in message and "pip install 'flydsl-gate[codegen]'" in message and "\n" not in message


def test_an_interpreter_that_cannot_be_started_is_not_told_to_install_anything(tmp_path: Path) -> None:
    python = tmp_path / "python"
    for text in (None, "#!/nowhere/python3\n"):
        if text is not None:
            python.write_text(text)
            python.chmod(0o755)
        of_triton = partial(find_triton, kernels=CANARIES, arch="gfx950")
        for find in (find_toolchain, of_triton):
            with pytest.raises(ToolchainError) as refusal:
                find(python=str(python))
            fix = "make its environment again, or name another interpreter"
            assert str(refusal.value) == f"{python} cannot be started (No such file or directory): {fix}"


ECHO = """
import json, sys, time
print(json.dumps({"status": "ok"}), flush=True)
for line in sys.stdin:
    time.sleep(json.loads(line))
    print(json.dumps({"status": "ok", "slept": json.loads(line)}), flush=True)
"""


def test_leaving_the_loop_ends_every_worker_at_once() -> None:
    pool = Pool([sys.executable, "-c", ECHO], {}, 60.0)
    before = threading.active_count()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for index, reply in pool.run([0, 50, 50, 50], 2):
            assert (index, reply["slept"]) == (0, 0)
            raise KeyboardInterrupt
    assert time.monotonic() - started < 5
    assert threading.active_count() == before


def test_a_worker_that_does_not_start_is_reported_with_its_last_words() -> None:
    script = "import sys; print('no such luck', file=sys.stderr); sys.exit(3)"
    with pytest.raises(StartError, match="exit code 3: no such luck"):
        list(Pool([sys.executable, "-c", script], {}, 1.0).run([1], 1))
