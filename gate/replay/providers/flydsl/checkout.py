"""A FlyDSL checkout's kernels as providers: found and built by the recipes of the codegen half, given real tensors."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gate.binding import bind as finding
from gate.binding.arguments import Arguments
from gate.binding.bind import Unsupported
from gate.binding.families.catalogue import launches_of
from gate.binding.families.kernel import Part, Refusal
from gate.binding.families.ledger import SHAPES
from gate.replay.environment import commit_of, package_commit, package_version
from gate.replay.op import Case, Tensors
from gate.replay.provider import KernelAdapter, Launch, NoKernel
from gate.replay.providers.flydsl.canaries import CANARIES, Canary
from gate.replay.providers.flydsl.streams import current_stream

VARIABLE = "FLYDSL_CHECKOUT"
# Every checkout of FlyDSL has had this kernel.
LANDMARK = "rmsnorm_kernel.py"

# What building a kernel of any version may raise beside its own refusals.
ODDITIES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
# What each launcher of a kernel is given, by its arguments' names, in the order of launches.
Given = list[dict[str, Any]]
Give = Callable[[Case, Tensors, Mapping[str, Any]], Given]
# Work before the first launch, after the last or between two; None where there is none.
Between = Callable[[Case, Tensors, Given], list[Callable[[], None] | None]]


@functools.cache
def root() -> Path | None:
    """The checkout: FLYDSL_CHECKOUT, else the first entry of the path that holds FlyDSL's kernels."""
    entries = [os.environ[VARIABLE]] if os.environ.get(VARIABLE) else sys.path
    for entry in entries:
        kernels = Path(entry or ".") / "kernels"
        if (kernels / LANDMARK).is_file() or (kernels / "norm" / LANDMARK).is_file():
            return kernels.parent.resolve()
    return None


def version() -> str | None:
    """The checkout's commit; without one that of FlyDSL's own checkout or the wheel's version."""
    found = root()
    commit = None if found is None else commit_of(found)
    return commit or package_commit("flydsl") or package_version("flydsl", "flydsl")


def chosen(case: Case) -> tuple[tuple[Part, ...], Mapping[str, Any]]:
    """The launches of the kernel that serves the case, and what is compiled in. Raises Refusal."""
    return launches_of(case.op_type, case.dtype, case.args, root())


@dataclass(frozen=True, slots=True)
class Built:
    """One launch, built: its recipe, its module, and its launcher."""

    recipe: Mapping[str, Any]
    module: Any
    launcher: Any
    name: str


@functools.cache
def _built(key: str, place: str) -> tuple[Built, ...]:
    parts, jit = _PARTS[key], importlib.import_module("flydsl.compiler.jit_function").JitFunction
    if place not in sys.path:
        sys.path.insert(0, place)
    made = []
    for part in parts:
        module = finding.find_module(Path(place), list(part.modules))
        names = list(part.builders or part.launchers)
        function = finding.find_callable(module, names)
        recipe = asdict(part)
        launcher = function
        if part.builders:
            launcher = finding.choose(finding.call_builder(function, recipe, module), list(part.launchers), jit)
        title = getattr(function, "__name__", None) or names[0]
        made.append(Built(recipe, module, launcher, f"{module.__name__}:{title}"))
    return tuple(made)


# Parts are not hashable; launches are built once for each text of theirs.
_PARTS: dict[str, tuple[Part, ...]] = {}


def built(case: Case) -> tuple[Built, ...]:
    """The launches of the case. Raises Refusal or Unsupported with the constraint in the kernel's own words."""
    parts, _ = chosen(case)
    key = repr(parts)
    _PARTS[key] = parts
    place = root()
    if place is None:
        raise Refusal(NO_CHECKOUT)
    return _built(key, str(place))


def canary_for(op_type: str) -> Canary | None:
    """The gate's own kernel of an op that no checkout is given for, or that checkouts have no kernel of."""
    return CANARIES.get(op_type) if root() is None or op_type not in SHAPES else None


NO_CHECKOUT = f"no FlyDSL checkout: set {VARIABLE}, or put one on the arm's path; wheels hold no kernels"


@dataclass(slots=True, kw_only=True)
class CheckoutKernel(KernelAdapter):
    """The kernel of a checkout for one op; without a checkout the gate's own, where there is one."""

    give: Give
    between: Between | None = None

    def supports(self, case: Case) -> str | None:
        if case.dtype not in self.dtypes:
            return f"flydsl {self.op_type} takes {', '.join(self.dtypes)}, not {case.dtype}"
        canary = canary_for(self.op_type)
        try:
            if canary is not None:
                return canary.refusal(case)
            chosen(case)
            refusal = None if self.when is None else self.when(case)
            if refusal is None:
                built(case)
            return refusal
        except (Refusal, Unsupported) as error:
            return str(error)
        except ODDITIES as error:
            return f"flydsl {self.op_type} cannot be built: {type(error).__name__} {error}"[:400]

    def bound(self, case: Case, tensors: Tensors) -> Launch:
        """The launches of the case with these tensors. Raises NoKernel in the kernel's words."""
        canary = canary_for(self.op_type)
        if canary is not None:
            return canary.bind(case, tensors)
        try:
            _, constants = chosen(case)
            given = self.give(case, tensors, constants)
            launches = [ready(one, values) for one, values in zip(built(case), given, strict=True)]
        except (Refusal, Unsupported) as error:
            raise NoKernel(str(error)) from None
        return in_turn(launches, self.between(case, tensors, given) if self.between else [])

    def describe(self, case: Case) -> str:
        canary = canary_for(self.op_type)
        if canary is not None:
            return canary.detail
        words = self.detail if self.branch is None else self.branch(case)
        return ", then ".join([one.name for one in built(case)]) + (f"; {words}" if words else "")


def ready(one: Built, values: Mapping[str, Any]) -> Callable[[Any], None]:
    """One launch with its tensors in place, but for the stream. Raises Unsupported when it asks for more."""
    import torch

    compiler, expr = (importlib.import_module(name) for name in ("flydsl.compiler", "flydsl.expr"))
    jit = importlib.import_module("flydsl.compiler.jit_function").JitFunction
    filled = Arguments(one.recipe, one.module, torch=torch, compiler=compiler, expr=expr, given=values)
    return filled.ready(one.launcher, jit)


def in_turn(launches: list[Callable[[Any], None]], steps: list[Callable[[], None] | None]) -> Launch:
    """The launches in order on the stream that is current at the call; `steps[i]` runs before launch i."""

    def launch() -> None:
        stream = current_stream()
        for index, one in enumerate(launches):
            if index < len(steps) and (step := steps[index]) is not None:
                step()
            one(stream)
        for step in steps[len(launches) :]:
            if step is not None:
                step()

    return launch


def checkout_kernel(*, op: str, dtypes: tuple[str, ...], **data: Any) -> Callable[[Give], CheckoutKernel]:
    """Makes a provider of a function that says what each launcher is given; `data` are CheckoutKernel's fields."""

    def wrap(give: Give) -> CheckoutKernel:
        def bind(case: Case, tensors: Tensors) -> Launch:
            return adapter.bound(case, tensors)

        fields = {"detail": "", "version": version, **data}
        adapter = CheckoutKernel(bind=bind, give=give, op_type=op, provider="flydsl", dtypes=dtypes, **fields)
        return adapter

    return wrap
