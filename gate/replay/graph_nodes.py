"""How to read the kernels out of a captured graph through the CUDA driver or the HIP runtime."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from gate.replay.driver import Driver, driver

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


def kernel_nodes(handle: int) -> tuple[str, ...] | None:
    """The names of the graph's kernel nodes in creation order, or None where the runtime does not tell."""
    runtime = driver()
    if runtime is None:
        return None
    count = ctypes.c_size_t()
    graph = ctypes.c_void_p(handle)
    get_nodes = getattr(runtime.functions, f"{runtime.prefix}GraphGetNodes")
    if get_nodes(graph, None, ctypes.byref(count)) != 0:
        return None
    nodes = (ctypes.c_void_p * count.value)()
    if get_nodes(graph, nodes, ctypes.byref(count)) != 0:
        return None
    names = []
    kind = ctypes.c_int()
    get_type = getattr(runtime.functions, f"{runtime.prefix}GraphNodeGetType")
    for node in nodes:
        if get_type(ctypes.c_void_p(node), ctypes.byref(kind)) != 0:
            return None
        if kind.value == KERNEL_NODE:
            names.append(_name(runtime, node or 0))
    return tuple(names)


def _name(runtime: Driver, node: int) -> str:
    cuda = runtime.prefix == "cu"
    params: Any = _CudaParams() if cuda else _HipParams()
    read = "cuGraphKernelNodeGetParams_v2" if cuda else "hipGraphKernelNodeGetParams"
    if getattr(runtime.functions, read)(ctypes.c_void_p(node), ctypes.byref(params)) != 0:
        return "kernel"
    return _function_name(runtime, params.func or 0, getattr(params, "kern", None) or 0)


@functools.lru_cache(maxsize=4096)
def _function_name(runtime: Driver, function: int, kernel: int) -> str:
    """The kernel's symbol; `kernel@ADDRESS` where only its identity is known."""
    text = ctypes.c_char_p()
    if runtime.prefix == "cu":
        getter, value = ("cuFuncGetName", function) if function else ("cuKernelGetName", kernel)
        read = getattr(runtime.functions, getter, None)
        if read is not None and read(ctypes.byref(text), ctypes.c_void_p(value)) == 0 and text.value:
            return text.value.decode("utf-8", "replace")
    return f"kernel@{function or kernel:x}"
