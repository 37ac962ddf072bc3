"""One file of Triton code per family; each stands alone, so that it also compiles where there is no torch."""
