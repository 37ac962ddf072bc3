"""AITER's Triton kernels; `AITER_TRITON_ONLY=1` imports them without its compiled half."""
