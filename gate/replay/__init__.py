"""The device half: measures the providers of a ledger's shapes, in processes that may die, with a timer that may not lie."""
