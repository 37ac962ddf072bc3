"""The JSON Schemas of the file contracts, and how a file is told apart and held against its own."""
