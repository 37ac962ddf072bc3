"""Whether what the providers call is still there: their calls, read from source, against a checkout's signatures."""
