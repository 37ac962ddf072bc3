"""One file per op; each defines `OP`."""
