"""A git repository of a simulated kernel: commits of which one is slower, some change comments, one does not import."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

KERNEL = """from tests.replay.sim_kernels import honest_kernel

# {comment}
slow = honest_kernel("flydsl", {factor})


def unused():
    return {unused}
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make(folder: Path, *, factors: Sequence[float | None], same: Sequence[int] = ()) -> list[str]:
    """The commits' hashes. `factors` are each commit's time over the first's, None for one that does not import;
    the commits in `same` change a comment and nothing else."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    hashes, unused = [], 0
    for index, factor in enumerate(factors):
        unused = unused if index in same else index
        text = KERNEL.format(comment=f"change {index}", factor=factor, unused=unused)
        (folder / "sim_kernel.py").write_text("import nothing_there\n" if factor is None else text)
        (folder / "NOTES.md").write_text(f"{index}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "--quiet", "-m", f"Change {index}")
        hashes.append(git(folder, "rev-parse", "HEAD"))
    return hashes
