"""How an entrypoint becomes a provider, and a provider of somebody's own in the way the documentation shows."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from gate.replay.op import Case, UnknownOp, load_op
from gate.replay.provider import Holding, NoKernel, ProviderAdapter, adapter_from, kernel, load_entrypoint, told_of

CASE = Case(shape_id="s", op_type="scale", dtype="fp32", args={"N": 4}, layout={})
MODULE = "my_company_kernels"


class Mine(ProviderAdapter):
    """A user's provider: the four things a provider is made of."""

    provider = "triton"
    detail = "our own branch"

    def supports(self, case: Case) -> str | None:
        return None if case.dim("N") % 4 == 0 else "N must be a multiple of 4"

    def prepare(self, case: Case, tensors: dict[str, Any]) -> Any:
        return tensors

    def launch(self, state: Any) -> None:
        state["out"].append(sum(state["x"]))


@kernel(
    op="scale", provider="triton", dtypes=("fp32",), when=lambda case: None if case.dim("N") < 9 else "N is too long"
)
def scale(case: Case, tensors: dict[str, Any]) -> Any:
    return lambda: tensors["out"].append(2 * tensors["x"])


@pytest.fixture(autouse=True)
def _module() -> Iterator[None]:
    module = types.ModuleType(MODULE)
    entries = {"Mine": Mine, "scale": scale, "get_adapter": Mine, "instance": Mine("scale"), "number": 3}
    vars(module).update(entries)
    sys.modules[MODULE] = module
    yield
    del sys.modules[MODULE]


@pytest.mark.parametrize("attribute", ["Mine", "scale", "get_adapter", "instance"])
def test_each_form_of_entrypoint_gives_an_adapter(attribute: str) -> None:
    adapter = load_entrypoint(f"{MODULE}:{attribute}", "scale")
    out: list[Any] = []
    tensors = {"x": 21, "out": out} if attribute == "scale" else {"x": [40, 2], "out": out}
    state = adapter.prepare(CASE, tensors)
    assert adapter.supports(CASE) is None
    assert adapter.launch(state) is None
    assert out == [42]


def test_a_factory_gets_the_ops_name() -> None:
    assert load_entrypoint(f"{MODULE}:get_adapter", "rope").op_type == "rope"


@pytest.mark.parametrize(
    ("entrypoint", "error", "words"),
    [
        (f"{MODULE}:absent", NoKernel, "no attribute absent"),
        (f"{MODULE}:number", TypeError, "int, not a provider adapter"),
        ("no_such_package.kernels:f", NoKernel, "no module no_such_package"),
        ("plain", TypeError, "pkg.module:Attr"),
    ],
)
def test_an_entrypoint_that_leads_nowhere_says_so(entrypoint: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        load_entrypoint(entrypoint, "scale")


def test_a_kernel_of_another_op_is_refused() -> None:
    with pytest.raises(NoKernel, match="a kernel for scale, not for softmax"):
        load_entrypoint(f"{MODULE}:scale", "softmax")


def test_a_modules_kernels_are_found_by_op() -> None:
    module = sys.modules[MODULE]
    assert adapter_from(module, "scale") is scale
    with pytest.raises(NoKernel, match="has no softmax kernel; it has scale"):
        adapter_from(module, "softmax")


def test_a_missing_import_inside_a_provider_is_an_import_error(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_provider.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        load_entrypoint("broken_provider:f", "scale")


def test_refusals_come_in_words_and_supports_never_raises() -> None:
    def case(**more: Any) -> Case:
        return Case(**{"shape_id": "s", "op_type": "scale", "dtype": "fp32", "args": {"N": 4}, "layout": {}, **more})

    assert scale.supports(case()) is None
    assert scale.supports(case(dtype="bf16")) == "triton scale takes fp32, not bf16"
    assert scale.supports(case(args={"N": 9})) == "N is too long"
    told = scale.supports(case(args={}))
    assert told is not None and "cannot read args" in told and "scale needs N" in told


def test_unknown_ops_are_told_from_broken_ones() -> None:
    with pytest.raises(UnknownOp, match="no op 'nonesuch'"):
        load_op("nonesuch")
    with pytest.raises(UnknownOp, match="defines no ABSENT"):
        load_op("tests.replay.sim_kernels:ABSENT")


def test_a_refusal_that_cannot_be_worked_out_is_a_refusal() -> None:
    @kernel(op="scale", provider="triton", dtypes=("fp32",), when=lambda case: str(8 % case.dim("N")))
    def divided(case: Case, tensors: dict[str, Any]) -> Any:
        raise AssertionError

    told = divided.supports(Case(shape_id="s", op_type="scale", dtype="fp32", args={"N": 0}, layout={}))
    assert told is not None and "cannot read args {'N': 0}: ZeroDivisionError" in told


def test_an_op_that_cannot_count_its_work_is_refused_before_it_is_measured() -> None:
    case = Case(shape_id="s", op_type="rmsnorm", dtype="fp32", args={"M": 4, "N": 64}, layout={})
    op = load_op("tests.replay.sim_kernels:OP")
    assert op.refusal(case) is None
    told = dataclasses.replace(op, flops=lambda case: 1.0 / 0).refusal(case)
    assert told is not None and "ZeroDivisionError" in told


def test_a_module_with_two_kernels_of_an_op_is_refused() -> None:
    module = sys.modules[MODULE]
    vars(module)["again"] = scale
    assert adapter_from(module, "scale") is scale
    vars(module)["other"] = dataclasses.replace(scale, name="other")
    with pytest.raises(TypeError, match="has two scale kernels, scale, other"):
        adapter_from(module, "scale")


def test_a_launch_can_say_what_was_chosen_for_it() -> None:
    def bind(case: Case, tensors: dict[str, Any]) -> Any:
        return Holding(lambda: tensors["out"].append(1), chosen="tile=64")

    adapter, out = kernel(op="scale", provider="triton", dtypes=("fp32",))(bind), []
    state = adapter.prepare(CASE, {"out": out})
    adapter.launch(state)
    assert (told_of(adapter, state), told_of(scale, scale.prepare(CASE, {})), out) == ("tile=64", "", [1])
