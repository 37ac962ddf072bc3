"""One file of Triton code per family."""
