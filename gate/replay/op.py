"""What an op is: its inputs, its fp32 reference, what it must move and compute, and how exact a result must be.

Standard library only: this module is imported inside worker processes that hold nothing but torch.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from gate.replay.device import Memory

Tensors = dict[str, Any]
Observe = Callable[["Case", Tensors, Tensors], Tensors]

ELEMENT_BYTES: dict[str, float] = {
    "fp32": 4,
    "f32": 4,
    "bf16": 2,
    "fp16": 2,
    "f16": 2,
    "fp8": 1,
    "int8": 1,
    "fp4": 0.5,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
}

# Even, a multiple of every group of a quantised row, and no more experts than there are.
ANY_SIZE = 128

# A sentinel cannot be told from a result in one byte: every value comes up by chance.
NARROW = frozenset({"int8", "uint8", "fp8"})


class MissingDimension(KeyError):
    """A shape lacks a dimension that it is asked for: a fault of its ledger, which no kernel refuses."""

    def __str__(self) -> str:
        return " ".join(map(str, self.args))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One ledger shape as a worker gets it; `args` are the op's dimensions and constants."""

    shape_id: str
    op_type: str
    dtype: str
    args: Mapping[str, Any]
    layout: Mapping[str, Any]

    def dim(self, name: str) -> int:
        """A dimension of the shape. Raises MissingDimension if the ledger row lacks it."""
        try:
            return int(self.args[name])
        except KeyError:
            raise MissingDimension(f"{self.op_type} needs {name}, which the shape's args do not have") from None

    @property
    def element_bytes(self) -> float:
        """Bytes of one element of the case's dtype."""
        return ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far an output may lie from the fp32 reference: |out - ref| <= atol + rtol x |ref|, and why so far."""

    atol: float
    rtol: float
    why: str


# The ledgers spell one dtype in two ways.
SPELLINGS: dict[str, tuple[str, ...]] = {"f16": ("f16", "fp16"), "f32": ("f32", "fp32")}


def tolerances(why: str, **limits: tuple[float, float]) -> dict[str, Tolerance]:
    """A tolerance for every spelling of each dtype; `limits` are (atol, rtol) by dtype, f16 and f32 named so."""
    return {
        name: Tolerance(atol=atol, rtol=rtol, why=why)
        for dtype, (atol, rtol) in limits.items()
        for name in SPELLINGS.get(dtype, (dtype,))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Shape and dtype of one tensor of one ring copy; `partial` when the op leaves a part of it as it was.

    `dtype` is a key of ELEMENT_BYTES other than fp4; fp8 is the flavour of e4m3 that the GPU's matrix units take.
    Two fp4 values share a uint8, the even one in the low half.
    """

    shape: tuple[int, ...]
    dtype: str
    partial: bool = False


def lacking(op_type: str, needs: Iterable[str], args: Mapping[str, Any], *, owner: str) -> str:
    """Which of these dimensions the args, called as `owner`, do not have, in words; empty if they have all."""
    names = [name for name in needs if args.get(name) is None]
    return f"{op_type} needs {' and '.join(names)}, which {owner} do not have" if names else ""


class _Asked(dict[str, int]):
    """The args of no shape: whatever is asked of them is there, as a size that any op can take, and is kept."""

    def __missing__(self, name: str) -> int:
        self[name] = ANY_SIZE
        return ANY_SIZE

    def get(self, name: str, default: Any = None) -> Any:
        """What a shape may lack, it lacks."""
        return default


class _Nowhere:
    """A device's memory and every tensor in it, without a value: each use of it gives itself."""

    def __getattr__(self, name: str) -> _Nowhere:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def _itself(self, *args: Any, **named: Any) -> _Nowhere:
        return self

    def _no_value(self) -> NoReturn:
        raise TypeError("a tensor without memory has no value")

    def __iter__(self) -> Iterator[_Nowhere]:
        return iter((self,))

    __call__ = __getitem__ = __neg__ = _itself
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _itself
    __bool__ = __int__ = __float__ = __index__ = __len__ = _no_value

    def __setitem__(self, place: Any, value: Any) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """The facts of one op, independent of any provider.

    `inputs(case, memory, copies, seed)` returns tensors with a leading axis of `copies` different random values.
    `reference(case, inputs)` takes the same stacked tensors and returns fp32 outputs computed on upcast inputs.
    `bytes_moved` and `flops` are lower bounds of one call: each input read once, each output written once.
    `refresh` names the inputs that a launch reads directly, so that they may be replaced after `prepare`; none where
    every input may be laid out anew by `prepare`.
    `observe(case, inputs, outputs)` turns raw outputs into what is compared with `reference`, by the reference's names:
    codes times their scale, the written slots of a cache, ties put in order. Without it outputs are compared as they
    are. `limits` are tolerances by compared name, where one differs from that of the case's dtype.
    """

    name: str
    inputs: Callable[[Case, Memory, int, int], Tensors]
    outputs: Callable[[Case], dict[str, Spec]]
    reference: Callable[[Case, Tensors], Tensors]
    bytes_moved: Callable[[Case], float]
    flops: Callable[[Case], float]
    tolerances: Mapping[str, Tolerance]
    layout: str
    refresh: tuple[str, ...]
    mutates: tuple[str, ...] = ()
    observe: Observe | None = None
    limits: Mapping[str, Tolerance] = field(default_factory=dict)

    def observed(self, case: Case, inputs: Tensors, outputs: Tensors) -> Tensors:
        """What is compared with the reference; all tensors have the leading axis of ring copies."""
        return outputs if self.observe is None else self.observe(case, inputs, outputs)

    def tolerance(self, case: Case, name: str) -> Tolerance:
        """How exact the compared value `name` must be."""
        return self.limits.get(name) or self.tolerances[case.dtype]

    def needs(self) -> tuple[str, ...]:
        """The dimensions that every shape of this op must have, sorted: what making its tensors and counting its work
        ask of a shape's args. Nothing is made: no device is needed, nor any library of tensors.
        """
        args, dtype = _Asked(), next(iter(self.tolerances), "")
        case = Case(shape_id="", op_type=self.name, dtype=dtype, args=args, layout={})
        nowhere: Any = _Nowhere()
        for ask in (self.outputs, self.bytes_moved, self.flops, lambda case: self.inputs(case, nowhere, 1, 0)):
            # An op of somebody else's may want values: then what it asked for until there is what is known.
            with contextlib.suppress(Exception):
                ask(case)
        return tuple(sorted(args))

    def lacking(self, args: Mapping[str, Any]) -> str:
        """The dimensions of `needs` that these args do not have, in words; empty if they have all."""
        return lacking(self.name, self.needs(), args, owner="the shape's args")

    def refusal(self, case: Case) -> str | None:
        """Why this op cannot be built for the case, or None. Raises MissingDimension where the case lacks one."""
        if missing := self.lacking(case.args):
            raise MissingDimension(missing)
        if case.dtype not in self.tolerances:
            return f"{self.name} has no fp32 reference tolerance for dtype {case.dtype}"
        try:
            self.outputs(case)
            self.bytes_moved(case)
            self.flops(case)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return f"{self.name} cannot be built from args {dict(case.args)}: {type(error).__name__} {error}"
        return None


def op_of(facts: Any, **data: Any) -> Op:
    """The op of a family whose member `facts` has Op's functions as its methods; `data` are Op's other fields."""
    return Op(
        inputs=facts.inputs,
        outputs=facts.outputs,
        reference=facts.reference,
        bytes_moved=facts.bytes_moved,
        flops=facts.flops,
        **data,
    )


class UnknownOp(LookupError):
    """No op of that name is defined."""


def load_op(op_type: str, package: str = "gate.replay.ops") -> Op:
    """The op named `op_type`, or `module:ATTR` for an op that lives elsewhere. Raises UnknownOp."""
    module_name, _, attribute = op_type.partition(":") if ":" in op_type else (f"{package}.{op_type}", "", "OP")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise UnknownOp(f"no op {op_type!r}: {module_name} does not exist") from None
        raise
    op = getattr(module, attribute, None)
    if not isinstance(op, Op):
        raise UnknownOp(f"{module_name} defines no {attribute}")
    return op
