"""gfx950 machine code without a GPU: which cases there are, their assembly, its numbers, and what changed."""
