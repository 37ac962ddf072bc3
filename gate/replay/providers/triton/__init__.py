"""Kernels of our own in Triton: a baseline that is meant to be hard to beat with a day's work."""
