"""The judge: pure functions from a ledger, matrices, results and a policy to one Decision."""
