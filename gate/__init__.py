"""The regression gate of FlyDSL's GPU kernels."""

__version__ = "0.1.0"
