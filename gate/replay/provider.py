"""What a provider is: how one kernel is bound to one op, and how `pkg.module:Attr` becomes such a kernel.

Standard library only: this module is imported inside worker processes that hold nothing but torch.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any

from gate.replay.op import Case, Tensors

Launch = Callable[[], Any]
Bind = Callable[[Case, Tensors], Launch]


@dataclass(frozen=True, slots=True)
class Holding:
    """A launch that keeps device memory beyond inputs and outputs, of each ring copy its own; `chosen` as an
    adapter's."""

    launch: Launch
    workspaces: tuple[Any, ...] = ()
    chosen: str = ""

    def __call__(self) -> Any:
        return self.launch()


class NoKernel(LookupError):
    """The provider has no kernel for the op; the message says so for people. It becomes an `unsupported` row."""


class ProviderAdapter:
    """One provider's kernel for one op. Subclass it, or decorate a function with `kernel`.

    `prepare` runs outside every timed region and makes the whole device state of one ring copy; `launch` uses
    nothing else, fetches the current stream when it is called, and returns None when it wrote the given output
    tensors, or a mapping of the outputs it allocated itself.
    """

    provider: str = ""
    detail: str = "opaque"
    includes_allocation: bool = False
    includes_layout_conversion: bool = False
    includes_jit: bool = False
    # Whether a first call may time kernels to choose one: then it must have the GPU to itself.
    tunes_itself: bool = True

    def __init__(self, op_type: str = "") -> None:
        self.op_type = op_type

    def supports(self, case: Case) -> str | None:
        """Why the case cannot run here, in the kernel's own words, or None. Never raises.

        A dimension that the op needs and the case lacks is no kernel's refusal: `Op.refusal` is asked before.
        """
        return None

    def compile(self, case: Case) -> None:
        """Fills on-disk compile caches without touching the GPU, so that it may run while another arm measures."""

    def prepare(self, case: Case, tensors: Tensors) -> Any:
        """The state of one ring copy; `tensors` holds this copy's inputs and preallocated outputs by name."""
        raise NotImplementedError

    def launch(self, state: Any) -> Mapping[str, Any] | None:
        """Enqueues one call on the current stream."""
        raise NotImplementedError

    def workspaces(self, state: Any) -> tuple[Any, ...]:
        """Device memory beyond inputs and outputs that a launch writes or that `prepare` laid out."""
        return ()

    def describe(self, case: Case) -> str:
        """The backend branch that this case takes, or `opaque`."""
        return self.detail

    def chosen(self, state: Any) -> str:
        """What was decided only once the tensors were there, such as a tuned tile; said behind what `describe` says."""
        return ""

    def converts_layout(self, case: Case) -> bool:
        """Whether a timed call also converts operands, for this case."""
        return self.includes_layout_conversion

    def commit(self) -> str | None:
        """The commit or version of the package that the kernel comes from."""
        return None


@dataclass(slots=True, kw_only=True)
class KernelAdapter(ProviderAdapter):
    """A provider made of one binding function and data; what `kernel` returns.

    `branch` names the backend branch of a case where `detail` does not fit all, `converts` says which cases a timed
    call converts operands for where `includes_layout_conversion` does not.
    """

    bind: Bind
    op_type: str
    provider: str
    dtypes: tuple[str, ...]
    detail: str = "opaque"
    when: Callable[[Case], str | None] | None = None
    compiler: Callable[[Case], None] | None = None
    version: Callable[[], str | None] | None = None
    branch: Callable[[Case], str] | None = None
    converts: Callable[[Case], bool] | None = None
    includes_allocation: bool = False
    includes_layout_conversion: bool = False
    includes_jit: bool = False
    tunes_itself: bool = True
    name: str = field(default="")

    def supports(self, case: Case) -> str | None:
        if case.dtype not in self.dtypes:
            return f"{self.provider} {self.op_type} takes {', '.join(self.dtypes)}, not {case.dtype}"
        if self.when is None:
            return None
        try:
            return self.when(case)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return f"{self.provider} {self.op_type} cannot read args {dict(case.args)}: {type(error).__name__} {error}"

    def compile(self, case: Case) -> None:
        if self.compiler is not None:
            self.compiler(case)

    def prepare(self, case: Case, tensors: Tensors) -> Any:
        return self.bind(case, tensors)

    def launch(self, state: Any) -> Mapping[str, Any] | None:
        result: Mapping[str, Any] | None = state()
        return result

    def workspaces(self, state: Any) -> tuple[Any, ...]:
        return state.workspaces if isinstance(state, Holding) else ()

    def chosen(self, state: Any) -> str:
        return state.chosen if isinstance(state, Holding) else ""

    def describe(self, case: Case) -> str:
        return self.detail if self.branch is None else self.branch(case)

    def converts_layout(self, case: Case) -> bool:
        return self.includes_layout_conversion if self.converts is None else self.converts(case)

    def commit(self) -> str | None:
        return None if self.version is None else self.version()


def told(adapter: ProviderAdapter, case: Case) -> dict[str, Any]:
    """What a provider says of its kernel. Raises TypeError where a result row could not hold it."""
    said: dict[str, tuple[Any, type | UnionType]] = {
        "detail": (adapter.describe(case), str),
        "commit": (adapter.commit(), str | None),
        "allocation": (adapter.includes_allocation, bool),
        "layout": (adapter.converts_layout(case), bool),
        "jit": (adapter.includes_jit, bool),
        "tunes": (adapter.tunes_itself, bool),
    }
    return {name: _of_kind(name, value, kind) for name, (value, kind) in said.items()}


def told_of(adapter: ProviderAdapter, state: Any) -> str:
    """What a provider says of one state. Raises TypeError as `told`."""
    words: str = _of_kind("choice", adapter.chosen(state), str)
    return words


def _of_kind(name: str, value: Any, kind: type | UnionType) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"the provider's {name} is {value!r}, which is no {getattr(kind, '__name__', kind)}")
    return value


def kernel(*, op: str, provider: str, dtypes: Iterable[str], **data: Any) -> Callable[[Bind], KernelAdapter]:
    """Makes a provider out of a binding function `(case, tensors) -> launch`; `data` are KernelAdapter's fields."""

    def wrap(bind: Bind) -> KernelAdapter:
        name = getattr(bind, "__name__", "kernel")
        return KernelAdapter(bind=bind, op_type=op, provider=provider, dtypes=tuple(dtypes), name=name, **data)

    return wrap


def kernels_of(module: Any) -> dict[str, KernelAdapter]:
    """The kernels that a provider module defines, by op; of a package, those of its modules.

    Raises TypeError where an op has two: which of them is measured must not depend on the order of files.
    """
    found: dict[str, KernelAdapter] = {}
    modules = [info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ())) if not info.ispkg]
    below = (kernels_of(importlib.import_module(f"{module.__name__}.{name}")).values() for name in modules)
    own = [item for item in vars(module).values() if isinstance(item, KernelAdapter)]
    for item in itertools.chain(own, *below):
        first = found.setdefault(item.op_type, item)
        if first is not item:
            raise TypeError(f"{module.__name__} has two {item.op_type} kernels, {first.name}, {item.name}")
    return found


def adapter_from(module: Any, op_type: str) -> ProviderAdapter:
    """The kernel of a provider module or package for an op. Raises NoKernel with the ops it does have."""
    kernels = kernels_of(module)
    if op_type not in kernels:
        raise NoKernel(f"{module.__name__} has no {op_type} kernel; it has {', '.join(sorted(kernels)) or 'none'}")
    return kernels[op_type]


def load_entrypoint(entrypoint: str, op_type: str) -> ProviderAdapter:
    """The adapter that `pkg.module:Attr` names: a kernel, a ProviderAdapter subclass, a factory, or an instance.

    Of a package, a kernel is also found by its op's name in the package's modules, which are imported for it only
    when one is asked for. A factory is any other callable and gets the op's name. Raises ImportError if the module
    cannot be imported, NoKernel if it has nothing for the op, TypeError if the attribute is none of these.
    """
    module_name, separator, attribute = entrypoint.partition(":")
    if not separator or not module_name or not attribute:
        raise TypeError(f"entrypoint {entrypoint!r} is not of the form pkg.module:Attr")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise NoKernel(f"there is no module {error.name}, so no {op_type} kernel in it") from None
    found = getattr(module, attribute, None)
    if hasattr(module, "__path__") and (found is None or inspect.ismodule(found)):
        # A package's module may have the name of the op whose kernel it holds.
        found = kernels_of(module).get(attribute)
    if found is None:
        raise NoKernel(f"{module_name} has no attribute {attribute}")
    is_class = inspect.isclass(found) and issubclass(found, ProviderAdapter)
    if is_class or (not isinstance(found, ProviderAdapter) and callable(found)):
        found = found(op_type)
    if not isinstance(found, ProviderAdapter):
        raise TypeError(f"{entrypoint} is {type(found).__name__}, not a provider adapter")
    if found.op_type not in ("", op_type):
        raise NoKernel(f"{entrypoint} is a kernel for {found.op_type}, not for {op_type}")
    return found
