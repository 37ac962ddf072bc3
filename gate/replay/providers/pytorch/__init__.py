"""PyTorch's own kernels: the reference provider, and a baseline wherever it has a fused kernel."""
