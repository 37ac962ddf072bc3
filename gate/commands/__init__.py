"""One verb a file: read, call, write."""
