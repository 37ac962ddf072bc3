"""A lock belongs to one process, says whose it is, and is given back however its holder ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gate import locks

HOLDER = """
import sys, pathlib
from gate import locks
locks.take(pathlib.Path(sys.argv[1]))
print('held', flush=True)
input()
"""
WAITER = """
import sys, pathlib
from gate import locks
with locks.held(pathlib.Path(sys.argv[1]), wait=True):
    print('mine', flush=True)
"""


def test_a_held_lock_names_its_owner(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with locks.held(path), pytest.raises(locks.Busy, match=str(os.getpid())):
        locks.take(path)


def test_a_lock_is_free_again_after_its_block(tmp_path: Path) -> None:
    for _ in range(2):
        with locks.held(tmp_path / ".lock"), pytest.raises(locks.Busy):
            locks.take(tmp_path / ".lock")


def test_a_killed_holder_gives_the_lock_back_to_who_waits(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    command = [sys.executable, "-c"]
    with subprocess.Popen(
        [*command, HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(locks.Busy, match=str(holder.pid)):
            locks.take(path)
        with subprocess.Popen([*command, WAITER, str(path)], stdout=subprocess.PIPE, text=True) as waiter:
            assert waiter.stdout is not None
            holder.kill()
            assert waiter.stdout.readline() == "mine\n"


def test_a_path_that_cannot_be_opened_is_the_systems_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        locks.take(tmp_path / "absent" / ".lock")
