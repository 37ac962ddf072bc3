"""Kernels of the gate's own, written in FlyDSL: they need the wheel alone, so the compiler can be watched anywhere.

They are loaded by file from the worker, never imported from here. Each file is one op and offers
`build(dtype, **constexprs) -> (launcher, arguments)`, where arguments is a tuple of `("tensor", dtype, shape)`,
`("int32", value)` and `("stream",)` in the launcher's order. Tensors are row-major and smaller than 4 GiB, because
buffer instructions add 32-bit byte offsets.
"""
