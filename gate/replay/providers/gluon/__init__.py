"""Kernels in Gluon, Triton's lower language; AITER keeps them."""
