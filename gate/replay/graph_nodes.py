"""How to read the kernels out of a captured graph through the CUDA driver or the HIP runtime."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

KERNEL_NODE = 0


class _CudaParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2 of the driver API."""

    _fields_ = [
        ("func", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kern", ctypes.c_void_p),
        ("ctx", ctypes.c_void_p),
    ]


class _HipParams(ctypes.Structure):
    """hipKernelNodeParams."""

    _fields_ = [
        ("block", ctypes.c_uint * 3),
        ("extra", ctypes.c_void_p),
        ("func", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("arguments", ctypes.c_void_p),
        ("shared_bytes", ctypes.c_uint),
    ]


class _Api(NamedTuple):
    library: Any
    prefix: str
    params: type[ctypes.Structure]
    read_params: str


@functools.cache
def _api() -> _Api | None:
    for name, prefix, params, read in (
        ("libcuda.so.1", "cuGraph", _CudaParams, "cuGraphKernelNodeGetParams_v2"),
        ("libamdhip64.so", "hipGraph", _HipParams, "hipGraphKernelNodeGetParams"),
    ):
        try:
            return _Api(ctypes.CDLL(name), prefix, params, read)
        except OSError:
            continue
    return None


def kernel_nodes(handle: int) -> tuple[str, ...] | None:
    """The names of the graph's kernel nodes in creation order, or None where the runtime does not tell."""
    api = _api()
    if api is None:
        return None
    count = ctypes.c_size_t()
    graph = ctypes.c_void_p(handle)
    get_nodes = getattr(api.library, f"{api.prefix}GetNodes")
    if get_nodes(graph, None, ctypes.byref(count)) != 0:
        return None
    nodes = (ctypes.c_void_p * count.value)()
    if get_nodes(graph, nodes, ctypes.byref(count)) != 0:
        return None
    names = []
    kind = ctypes.c_int()
    for node in nodes:
        if getattr(api.library, f"{api.prefix}NodeGetType")(ctypes.c_void_p(node), ctypes.byref(kind)) != 0:
            return None
        if kind.value == KERNEL_NODE:
            names.append(_name(api, node or 0))
    return tuple(names)


def _name(api: _Api, node: int) -> str:
    params = api.params()
    if getattr(api.library, api.read_params)(ctypes.c_void_p(node), ctypes.byref(params)) != 0:
        return "kernel"
    return _function_name(api, params.func or 0, getattr(params, "kern", None) or 0)


@functools.lru_cache(maxsize=4096)
def _function_name(api: _Api, function: int, kernel: int) -> str:
    """The kernel's symbol; `kernel@ADDRESS` where only its identity is known."""
    text = ctypes.c_char_p()
    if api.prefix == "cuGraph":
        getter, value = ("cuFuncGetName", function) if function else ("cuKernelGetName", kernel)
        read = getattr(api.library, getter, None)
        if read is not None and read(ctypes.byref(text), ctypes.c_void_p(value)) == 0 and text.value:
            return text.value.decode("utf-8", "replace")
    return f"kernel@{function or kernel:x}"
