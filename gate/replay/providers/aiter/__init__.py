"""AITER's own entries, which choose among its compiled, assembly and generated kernels."""
