"""What a command leaves in a clone, if it is typed as the documents or the gate print it, is no part of the project."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
# `--out NAME` of a folder in the one where one stands; `--out DIR` and files such as plan.json are not meant.
SHOWN = re.compile(r"--out ([a-z][\w-]*)(?=[/\s`])")
# In the code a command is a list of words, or a line whose words before it are options.
PRINTED = re.compile(r'"--out", f?"([a-z][\w-]*)|gate [\w{}. -]+ --op [^"]*--out ([a-z][\w-]*)"')


def folders() -> set[str]:
    """The folders that shown and printed commands write."""
    shown = {name for path in DOCUMENTS for name in SHOWN.findall(path.read_text())}
    code = [path.read_text() for path in (ROOT / "gate").rglob("*.py")]
    return shown | {"".join(names) for text in code for names in PRINTED.findall(text)}


FOLDERS = sorted(folders())
PATTERNS = (ROOT / ".gitignore").read_text().split()


def test_the_folders_of_commands_are_found() -> None:
    assert {"prof", "profiled", "records", "judged", "gate-again", "confirm-", "before", "rehearsal"} <= set(FOLDERS)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_a_command_writes_is_ignored(name: str) -> None:
    assert any(fnmatch.fnmatch(f"/{name}/", pattern) for pattern in PATTERNS), f"add /{name}/ to .gitignore"
