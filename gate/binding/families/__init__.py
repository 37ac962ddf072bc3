"""The kernels of a FlyDSL checkout, one file per family: how each is built, and a few cases that stand for it.

A case that no ledger names is representative: its sizes are those of well-known models, chosen so that every builder
and every path through it is compiled at least once. Code depends on constexprs, rank and dtype and not on sizes of
tensors, so `ROWS` rows stand for any number.
"""
