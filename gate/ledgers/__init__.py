"""Where ledger rows come from: importers of outside sources, derivation from model facts, freezing."""
