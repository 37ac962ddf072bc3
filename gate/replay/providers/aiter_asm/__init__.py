"""AITER's assembly kernels, where Python can ask for them."""
