"""The coordinator's end of a worker: starts it, asks it, watches the clock, and buries it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import queue
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gate.replay.last_words import how_it_ended, reply_in, telling_line

BOOT = Path(__file__).resolve().parent / "boot.py"
TAIL_BYTES = 2000
# Names the worker's end of the socket over which open files, such as shared device memory, pass.
FILES_VARIABLE = "GATE_FILES_SOCKET"
FILE_WAIT_S = 10.0
# How long a process that was killed is waited for.
END_WAIT_S = 10.0


class WorkerDied(Exception):
    """The worker is gone. `outside` means that something else killed it (signal 9), so that asking again is fair;
    `silent` that it never answered as a worker does."""

    def __init__(self, reason: str, *, outside: bool = False, hung: bool = False, silent: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.outside, self.hung, self.silent = reason, outside, hung, silent


@functools.cache
def _starting() -> queue.SimpleQueue[tuple[Future[subprocess.Popen[bytes]], Callable[[], subprocess.Popen[bytes]]]]:
    """What a thread takes from that lives as long as this process, and carries out."""
    coming: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def serve() -> None:
        while True:
            found, start = coming.get()
            try:
                found.set_result(start())
            except BaseException as error:  # noqa: BLE001  raised where it was asked for
                found.set_exception(error)

    threading.Thread(target=serve, name="starts workers", daemon=True).start()
    return coming


def _started(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """A process that may outlive the thread that asks for it.

    A worker has Linux kill it when its parent dies, and the parent that Linux means is the thread that started it.
    Raises what Popen raises.
    """
    found: Future[subprocess.Popen[bytes]] = Future()
    _starting().put((found, lambda: subprocess.Popen(command, **options)))
    return found.result()


class Link:
    """One worker process. Not thread-safe: one lane owns it."""

    def __init__(self, *, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._log = log
        self._ids = itertools.count(1)
        self._buffer = b""
        self._answered = False
        log.parent.mkdir(parents=True, exist_ok=True)
        self._files, theirs = socket.socketpair()
        self._files.settimeout(FILE_WAIT_S)
        with contextlib.ExitStack() as failing:
            failing.callback(self._files.close)
            with log.open("ab") as stderr, theirs:
                self._log_from = stderr.tell()
                self._process = _started(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env={**environment, FILES_VARIABLE: str(theirs.fileno())},
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            failing.pop_all()
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process has ended by itself or was killed."""
        return self._process.poll() is not None

    def send(self, message: Mapping[str, Any]) -> int:
        """Sends one command and returns its id. Raises WorkerDied."""
        number = next(self._ids)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({**message, "id": number}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._death(str(message.get("do"))) from None
        return number

    def receive(self, number: int, *, what: str, timeout_s: float) -> dict[str, Any]:
        """The reply with that id. Raises WorkerDied when the process ends or stays silent for `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while True:
            line, separator, rest = self._buffer.partition(b"\n")
            if separator:
                self._buffer = rest
                reply = reply_in(line)
                if reply is None:
                    self.kill()
                    said = telling_line(line.decode("utf-8", "replace"))
                    raise WorkerDied(f"the answer to {what} is not a worker's: {said}", silent=not self._answered)
                self._answered = True
                if reply.get("id") == number:
                    return reply
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                self.kill()
                raise WorkerDied(
                    f"hang: no answer to {what} within {timeout_s:g} s", hung=True, silent=not self._answered
                )
            if self._selector.select(left):
                self._fill(what)

    def _fill(self, what: str) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise self._death(what)
            self._buffer += chunk

    def ask(self, message: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Sends one command and waits for its reply. Raises WorkerDied."""
        return self.receive(self.send(message), what=str(message.get("do")), timeout_s=timeout_s)

    def give_file(self, descriptor: int) -> None:
        """Hands the worker an open file, which its next command is to take. Raises WorkerDied."""
        try:
            socket.send_fds(self._files, [b"f"], [descriptor])
        except OSError:
            raise self._death("a hand-over") from None

    def take_file(self) -> int:
        """An open file that the worker has handed over, the caller's to close. Raises WorkerDied."""
        try:
            _, descriptors, _, _ = socket.recv_fds(self._files, 1, 1)
        except OSError:
            descriptors = []
        if not descriptors:
            raise self._death("a hand-over")
        return int(descriptors[0])

    def _death(self, what: str) -> WorkerDied:
        try:
            code = self._process.wait(timeout=END_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -signal.SIGKILL
        told = telling_line(self._tail()) or ("" if self._answered else telling_line(self._unread()))
        reason = f"the worker {how_it_ended(code)} during {what}"
        reason = f"{reason}: {told}" if told else reason
        return WorkerDied(reason, outside=code == -signal.SIGKILL, silent=not self._answered)

    def _unread(self) -> str:
        """What a process that has ended left on its standard output."""
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._buffer += os.read(self._process.stdout.fileno(), 1 << 16)
        return self._buffer[-TAIL_BYTES:].decode("utf-8", "replace")

    def _tail(self) -> str:
        """The end of what this worker has logged, not those before it of the same name."""
        try:
            with self._log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - TAIL_BYTES, self._log_from))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def close(self) -> None:
        """Ends the worker at once: it holds nothing that is not on disk, and a GPU runtime takes seconds to leave."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self.kill()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._selector.close()
        self._process.stdout.close()
        self._files.close()

    def strike(self) -> None:
        """Has the worker and whatever it started (it leads a session of its own) killed, and waits for no end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Ends the worker and whatever it started; a driver that hangs may keep it."""
        self.strike()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=END_WAIT_S)
