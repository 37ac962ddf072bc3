"""The rules of the classification, one category a file; their order is in classify.RULES."""
