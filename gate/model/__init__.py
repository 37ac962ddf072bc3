"""Values only: what a ledger, a result, a policy and a decision are; nothing here reads or computes."""
