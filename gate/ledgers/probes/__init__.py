"""Boundary probes: for each op the shapes just below, at and past the edges where its kernels change course."""
