"""Knows whether a change can touch a kernel at all, from the files that the API says it changes."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

# GitHub's comparison lists no more than this many files: at the limit nobody knows what else changed.
MOST_FILES = 300
# A path is harmless only if it is named here; everything else may reach a kernel.
HARMLESS = ("*.md", "*.rst", "docs/*", "LICENSE", "LICENSE.*", ".gitignore", "CODEOWNERS", ".github/CODEOWNERS")


def harmless(files: Sequence[str]) -> bool:
    """Whether every changed path matches a pattern; no path at all, or too many to list them all, is not harmless."""
    return 0 < len(files) < MOST_FILES and all(any(fnmatchcase(file, one) for one in HARMLESS) for file in files)
