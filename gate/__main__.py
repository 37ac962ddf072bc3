"""`python -m gate` is the `gate` command."""

from gate.cli import main

main()
