"""The history of all runs: a store of Parquet files without a server, its series, their noise and their changes."""
