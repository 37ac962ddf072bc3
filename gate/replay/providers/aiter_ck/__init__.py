"""Composable Kernel's products, where AITER lets Python ask for that backend."""
