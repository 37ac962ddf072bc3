"""Trials of the judge and of other rules on identical and on slowed code, from recorded or simulated noise."""
