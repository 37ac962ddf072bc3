"""One file per provider; each kernel is a decorated function, named after its op."""
