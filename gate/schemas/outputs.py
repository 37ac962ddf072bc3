"""Knows the gate's own outputs that no contract describes, by their place in its folder; they are told, not checked."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import PurePath

# What the gate writes besides its contracts: pattern of the last parts of the path, and what it is in words.
_OUTPUTS: tuple[tuple[str, str], ...] = (
    (".*", "hidden file"),
    ("*.md", "text for people"),
    ("*.html", "page for people"),
    ("*.svg", "plot"),
    ("*.png", "plot"),
    ("*.s", "machine code as text"),
    ("compiled/*.json", "cache of compiled cases"),
    ("compiled/*/*.json", "cache of compiled cases"),
    ("pages/index.json", "list of the pages"),
    ("raw_samples*", "single samples of a measurement"),
    ("journal.jsonl", "journal of a measurement"),
    ("manifest.json", "manifest of a measurement"),
    ("logs/*.log", "log of a worker"),
    ("run.json", "state of a run"),
    ("part.json", "what a timed run says of itself"),
    ("plan.json", "plan of shards"),
    ("bundle.jsonl", "bundle of results for the trusted job"),
    ("codegen_plan.jsonl", "plan of what is compiled"),
    ("triage.jsonl", "which shapes need a GPU"),
    ("shapes_to_run.txt", "which shapes need a GPU"),
    ("attribution.jsonl", "who changed the machine code"),
    ("history.jsonl", "history for the trend plot"),
    ("bisect.json", "answer of a bisection"),
    ("selftest.json", "false alarms and power of the judge"),
)
# Names that promise a contract: such a file is never skipped, whatever stands in it.
CONTRACT_FILES = frozenset(
    {
        "baseline_matrix.yaml",
        "benchmark_results.csv",
        "benchmark_results.jsonl",
        "codegen_records.jsonl",
        "correctness_results.jsonl",
        "decision.json",
        "ledger.lock.json",
        "policy.toml",
        "provenance.jsonl",
        "regressions.jsonl",
        "shape_ledger.jsonl",
        "status.json",
        "waivers.toml",
    }
)
# Files that have no line where there is nothing to say, and their contract.
MAY_BE_EMPTY = {"regressions.jsonl": "regressions"}


def own_output(file: str) -> str:
    """What the gate writes under such a path, in words; empty for any other."""
    parts = PurePath(file).parts
    for pattern, what in _OUTPUTS:
        if fnmatch("/".join(parts[-1 - pattern.count("/") :]), pattern):
            return what
    return ""
