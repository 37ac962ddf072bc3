"""Marks of tests that need packages which are not installed everywhere."""

from __future__ import annotations

import importlib.util

import pytest


def _absent(*names: str) -> bool:
    return any(importlib.util.find_spec(name) is None for name in names)


needs_flydsl = pytest.mark.skipif(
    _absent("flydsl"), reason="compiles with flydsl, which is not installed here: pip install 'flydsl-gate[codegen]'"
)
needs_torch = pytest.mark.skipif(_absent("torch"), reason="computes with torch, which is not installed here")
needs_triton = pytest.mark.skipif(
    _absent("torch", "triton"), reason="uses Triton on torch's tensors, and one of them is not installed here"
)
