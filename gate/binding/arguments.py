"""Fills the arguments of a launcher by what its signature asks for: with nothing, to compile, or with real tensors."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from gate.binding.bind import MAX_DEPTH, Unsupported, call_builder, contents, find_callable, kinds

TORCH_NAME = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "i8": "int8",
    "u8": "uint8",
    "i32": "int32",
    "i64": "int64",
}
# An address that is aligned to anything a kernel may assume; nothing is ever loaded from it.
ADDRESS = 1 << 20
# Stands for the stream among arguments that are ready but for it.
STREAM = object()


class Arguments:
    """Makes the arguments of one launcher from a recipe, with the torch and the FlyDSL that the worker imported.

    Without `given` every argument holds nothing, which is enough to compile. With it, what the launcher asks for is
    taken from there by name and nothing is made up; a stream is left open and set at each call.
    """

    def __init__(
        self,
        recipe: Mapping[str, Any],
        module: ModuleType,
        *,
        torch: Any,
        compiler: Any,
        expr: Any,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.recipe, self.module, self.given = recipe, module, given
        self.torch, self.compiler, self.expr = torch, compiler, expr

    def launch(self, launcher: Any, jit_type: type) -> None:
        """Call the launcher with every argument it needs."""
        positional, named = self.arranged(launcher, jit_type)
        launcher(*positional, **named)

    def ready(self, launcher: Any, jit_type: type) -> Callable[[Any], None]:
        """The call with what was given, ready to be made on a stream. Raises Unsupported when more is asked for.

        The call keeps all that was given: a pointer argument holds an address alone, not the memory behind it.
        """
        positional, named = self.arranged(launcher, jit_type)
        places = [index for index, value in enumerate(positional) if value is STREAM]
        names = [name for name, value in named.items() if value is STREAM]

        def call(stream: Any, _kept: Mapping[str, Any] | None = self.given) -> None:
            for index in places:
                positional[index] = stream
            launcher(*positional, **{**named, **dict.fromkeys(names, stream)})

        return call

    def arranged(self, launcher: Any, jit_type: type) -> tuple[list[Any], dict[str, Any]]:
        """The launcher's arguments, by position as far as that goes, for wrappers count them."""
        signature = inspect.signature(self.visible(launcher))
        filled = self.fill(signature, kinds(launcher, jit_type))
        positional: list[Any] = []
        for name, item in signature.parameters.items():
            if name not in filled or item.kind is item.KEYWORD_ONLY:
                break
            positional.append(filled.pop(name))
        return positional, filled

    def visible(self, launcher: Any, depth: int = 0) -> Any:
        """The function whose signature tells what a launcher takes; a wrapper of `*args` hides it in its closure."""
        function = getattr(launcher, "func", launcher)
        items = inspect.signature(function).parameters
        named = all(item.kind is not item.VAR_POSITIONAL for item in items.values())
        if named and (not depth or set(items) & {*self.recipe["tensors"], *(self.given or ())}):
            return function
        for cell in (getattr(function, "__closure__", None) or ()) if depth < MAX_DEPTH else ():
            inner = contents(cell)
            found = self.visible(inner, depth + 1) if callable(inner) and not isinstance(inner, type) else None
            if found is not None:
                return found
        return None if depth else function

    def fill(self, signature: inspect.Signature, by_name: Mapping[str, str]) -> dict[str, Any]:
        """Return every argument by name. Raises Unsupported when the recipe does not know one that is needed."""
        recipe = self.recipe
        constexprs = {**recipe["offers"], **recipe["values"]}
        filled = {}
        for name, item in signature.parameters.items():
            if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD):
                continue
            holders = [recipe["tensors"], recipe["scalars"]] if self.given is None else [self.given]
            known = name in recipe["made"] or any(name in holder for holder in holders)
            known = known or (self.given is not None and name == "stream")
            constexpr = name in constexprs and by_name.get(name) == "Constexpr"
            if item.default is inspect.Parameter.empty or known or constexpr:
                filled[name] = self.one(name, by_name.get(name), signature)
        return filled

    def one(self, name: str, kind: str | None, signature: inspect.Signature) -> Any:
        recipe = self.recipe
        constexprs = {**recipe["offers"], **recipe["values"]}
        if name in recipe["made"]:
            made = recipe["made"][name]
            return call_builder(find_callable(self.module, [made["function"]]), made, self.module)
        if self.given is not None:
            return self.real(name, kind, signature)
        if kind == "Pointer":
            return self.compiler.from_c_void_p(self.expr.Uint8, ADDRESS)
        if kind == "Int64" or recipe["scalars"].get(name) == "address":
            return self.expr.Int64(ADDRESS)
        if name in recipe["tensors"]:
            return self.tensor(*recipe["tensors"][name])
        if name in recipe["scalars"]:
            return recipe["scalars"][name]
        if kind == "Stream" or name == "stream":
            return self.expr.Stream(None)
        if kind == "Constexpr" and name in constexprs:
            return constexprs[name]
        if kind in ("Tensor", "Constexpr"):
            expected = ", ".join([*recipe["tensors"], *constexprs])
            raise Unsupported(f"API changed: expected a launcher of ({expected}), found {signature}")
        return 1.0 if kind == "Float32" else 1

    def real(self, name: str, kind: str | None, signature: inspect.Signature) -> Any:
        """What was given under that name, as the launcher takes it. Raises Unsupported when nothing was."""
        constexprs = {**self.recipe["offers"], **self.recipe["values"]}
        if kind == "Stream" or name == "stream":
            return STREAM
        if self.given is None or name not in self.given:
            if kind == "Constexpr" and name in constexprs:
                return constexprs[name]
            raise Unsupported(f"API changed: the launcher asks for {name}, which is not given: {signature}"[:400])
        value = self.given[name]
        if not hasattr(value, "data_ptr"):
            return value
        if kind == "Pointer":
            return self.compiler.from_c_void_p(self.expr.Uint8, value.data_ptr())
        if kind == "Int64":
            return value.data_ptr()
        return self.formed(value, *self.recipe["tensors"].get(name, ()))

    def formed(self, value: Any, dtype: str = "", shape: Any = None, layout: str = "dynamic") -> Any:
        """A tensor with the rank and the element type that the recipe compiles for; it shares the memory."""
        if dtype in ("i8", "u8") and value.element_size() == 1:
            value = value.view(getattr(self.torch, TORCH_NAME[dtype]))
        if shape is not None and len(shape) == 1 and value.dim() != 1:
            value = value.view(-1)
        return self.compiler.from_torch_tensor(value) if layout == "static" else value

    def tensor(self, dtype: str, shape: list[int], layout: str = "dynamic") -> Any:
        """A tensor of no data: dynamic (sizes unknown to the kernel), static, or column-major and dynamic."""
        if dtype == "f8":
            held = "float8_e4m3fn" if "gfx95" in os.environ["ARCH"] else "float8_e4m3fnuz"
        else:
            held = TORCH_NAME[dtype]
        if layout == "column":
            return self.torch.empty(tuple(reversed(shape)), dtype=getattr(self.torch, held)).t()
        made = self.torch.empty(tuple(shape), dtype=getattr(self.torch, held))
        return self.compiler.from_torch_tensor(made) if layout == "static" else made
