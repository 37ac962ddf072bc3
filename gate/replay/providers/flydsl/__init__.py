"""The candidate: FlyDSL's kernels, from a checkout, else the gate's own for the four ops that it has kernels of.

A checkout is named by FLYDSL_CHECKOUT or lies on the arm's path; the FlyDSL that compiles is what the arm imports.
"""
