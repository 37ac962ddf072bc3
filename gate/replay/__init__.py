"""The device half: measures a ledger's providers, in processes that may die, with a timer that may not lie."""
