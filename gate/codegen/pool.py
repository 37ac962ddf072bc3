"""Knows how to keep worker processes busy, one case at a time each, and how one that dies or hangs is replaced.

Workers are started as fresh programs, never forked: a fork after FlyDSL's import hangs.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Reply = dict[str, Any]
START_SECONDS = 120.0
# What a process that has closed its output gets to end by itself.
END_SECONDS = 10.0


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """A SIGTERM meanwhile is a KeyboardInterrupt: left to itself it ends this process and leaves its workers running.

    Only the main thread can hear signals, and a handler that someone else has set stays.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class StartError(RuntimeError):
    """A worker did not come up; the message is what it said."""


class Worker:
    """One process that answers JSON lines. Not shared between threads, except for `kill`."""

    def __init__(self, command: Sequence[str], env: dict[str, str]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process; closed in `close`
        self._buffer = bytearray()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=env,
            start_new_session=True,
        )

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue

    def ask(self, case: Any, timeout_s: float) -> Reply:
        """Return the worker's answer, or a reply of status `timeout` or `crashed`, after which it must be closed."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(case).encode() + b"\n")
            self._process.stdin.flush()
            return self.read(timeout_s)
        except TimeoutError:
            return {"status": "timeout", "error": f"no answer within {timeout_s:g} s", "seconds": timeout_s}
        except (EOFError, BrokenPipeError):
            return {"status": "crashed", "error": self.last_words()}
        except ValueError as error:
            return {"status": "crashed", "error": f"its answer cannot be read: {error}"}

    def read(self, timeout_s: float) -> Reply:
        """Return the next answer. Raises TimeoutError, EOFError when the process ended, ValueError for no answer."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        while (end := self._buffer.find(b"\n")) < 0:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            chunk = os.read(descriptor, 1 << 20)
            if not chunk:
                raise EOFError
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        reply: Reply = json.loads(line)
        if not isinstance(reply, dict) or "status" not in reply:
            raise ValueError(f"no status in {line[:80]!r}")
        return reply

    def last_words(self) -> str:
        """How the process ended, and the line of its standard error that says why."""
        try:
            code = self._process.wait(END_SECONDS)
            ending = _signal_name(-code) if code < 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            self.kill()
            ending = "it closed its output and went on"
        self._stderr.seek(0)
        lines = [line.strip() for line in self._stderr.read().decode("utf-8", "replace").splitlines()]
        spoken = [line for line in lines if line]
        # LLVM follows its reason with a stack dump, so the last line alone would say nothing.
        reasons = [line for line in spoken if "LLVM ERROR" in line or "Assertion" in line]
        return ": ".join([ending, *(reasons or spoken)[-1:]])[:500]


def _signal_name(number: int) -> str:
    known = (one.name for one in signal.Signals if one.value == number)
    return next(known, f"signal {number}")


class Pool:
    """`jobs` threads, each with a worker of its own, that answer a list of cases."""

    def __init__(self, command: Sequence[str], env: dict[str, str], timeout_s: float) -> None:
        self._command, self._env, self._timeout_s = command, env, timeout_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._live: set[Worker] = set()

    def run(self, cases: Sequence[Any], jobs: int) -> Generator[tuple[int, Reply], None, None]:
        """Yield (index, reply) as answers arrive. Closing the generator, or any exception, ends every worker.

        Raises StartError when a worker does not come up.
        """
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, Reply] | StartError] = queue.SimpleQueue()
        for index in range(len(cases)):
            todo.put(index)
        threads = [
            threading.Thread(target=self._serve, args=(cases, todo, done.put), daemon=True)
            for _ in range(max(1, min(jobs, len(cases))))
        ]
        try:
            for thread in threads:
                thread.start()
            for _ in cases:
                answer = done.get()
                if isinstance(answer, StartError):
                    raise answer
                yield answer
        finally:
            self._end(threads)

    def _serve(
        self,
        cases: Sequence[Any],
        todo: queue.SimpleQueue[int],
        put: Callable[[tuple[int, Reply] | StartError], None],
    ) -> None:
        worker: Worker | None = None
        try:
            while not self._stop.is_set():
                try:
                    index = todo.get_nowait()
                except queue.Empty:
                    return
                worker = worker or self._start()
                reply = worker.ask(cases[index], self._timeout_s)
                if reply["status"] in ("timeout", "crashed"):
                    self._drop(worker)
                    worker = None
                put((index, reply))
        except StartError as error:
            put(error)
        finally:
            if worker:
                self._drop(worker)

    def _start(self) -> Worker:
        try:
            worker = Worker(self._command, self._env)
        except OSError as error:
            raise StartError(str(error)) from None
        with self._lock:
            self._live.add(worker)
        try:
            greeting = worker.read(START_SECONDS)
        except TimeoutError:
            greeting = {"status": "failed", "error": f"FlyDSL did not import within {START_SECONDS:g} s"}
        except (EOFError, ValueError):
            greeting = {"status": "failed", "error": worker.last_words()}
        if greeting.get("status") != "ok":
            self._drop(worker)
            raise StartError(str(greeting.get("error")))
        return worker

    def _drop(self, worker: Worker) -> None:
        with self._lock:
            self._live.discard(worker)
        worker.close()

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        self._stop.set()
        while any(thread.is_alive() for thread in threads):
            with self._lock:
                for worker in self._live:
                    worker.kill()
            for thread in threads:
                thread.join(0.02)
