"""A stateful GitHub on loopback: the routes the gate uses, tokens with scopes, pages, locks, limits and planted faults.

Every request and every response is held against the models that GitHub's OpenAPI description gives; what breaks them
is listed in `violations`, which every test asserts to be empty.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.publish.fake_routes import FakeGitHub
from tests.publish.fake_state import BOT, FORK_ID, FULL, REPO, REPO_ID, Answer, Fault, Refuse, Token, repository

__all__ = [
    "BOT",
    "FORK_ID",
    "FULL",
    "REPO",
    "REPO_ID",
    "FakeGitHub",
    "Fault",
    "Token",
    "repository",
    "running",
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet an answer: otherwise Nagle's algorithm and delayed acknowledgements cost 40 ms a request.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    fake: FakeGitHub

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        parts = urlsplit(self.path)
        fake, path = self.fake, parts.path
        if path.startswith("/blob/"):
            fake.blob_authorizations.append(self.headers.get("Authorization"))
            self._reply(Answer(200, raw=fake.blobs[int(path.split("/")[2])]))
            return
        word = (self.headers.get("Authorization") or "").rpartition(" ")[2]
        fake.turnstile(word)
        if not path.startswith(fake.prefix):
            fake.violations.append(f"outside {fake.prefix}: {path}")
        path = path.removeprefix(fake.prefix)
        with fake.lock:
            fault = fake.plan(self.command, path)
            answer = Answer(502, {"message": "Server Error"})
            if fault is None or fault.when == "after":
                answer = self._answer(path, parts.query, sent, word)
            fake.log.append((self.command, path, answer.status if fault is None else -1))
        self._reply(answer) if fault is None else self._fail(fault)
        fake.after(self.command, path)

    def _answer(self, path: str, query: str, sent: bytes, word: str) -> Answer:
        fake = self.fake
        fake.here = path
        wanted = {name: values[-1] for name, values in parse_qs(query).items()}
        fake.rest = "".join(f"&{name}={value}" for name, value in wanted.items() if name not in ("page", "per_page"))
        try:
            body = json.loads(sent) if sent else None
            return fake.answer(self.command, path, wanted, body, fake.tokens.get(word))
        except Refuse as refused:
            return refused.answer

    def _fail(self, fault: Fault) -> None:
        if fault.kind == "drop":
            self.close_connection = True
            self.connection.close()
        elif fault.kind == "hang":
            time.sleep(1.5)
            self.close_connection = True
        elif fault.kind == "garbage":
            self._reply(Answer(200, raw=b"<html>not what you asked for"))
        elif fault.kind == "429":
            self._reply(Answer(429, {"message": "Too many requests"}))
        elif fault.kind == "403":
            text = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
            self._reply(Answer(403, {"message": text}, {"Retry-After": "7"}))
        else:
            self._reply(Answer(int(fault.kind), {"message": "Server Error"}))

    def _reply(self, answer: Answer) -> None:
        data = (
            answer.raw if answer.raw is not None else b"" if answer.body is None else json.dumps(answer.body).encode()
        )
        self.send_response(answer.status)
        kind = "application/json; charset=utf-8" if answer.raw is None else "application/octet-stream"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    do_GET = do_POST = do_PATCH = do_DELETE = _serve

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def running(*, prefix: str = "") -> Iterator[FakeGitHub]:
    """A fake on a free port of loopback; `prefix` is /api/v3 on GitHub Enterprise."""
    fake = FakeGitHub()
    handler = type("Bound", (Handler,), {"fake": fake})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    fake.prefix = prefix
    fake.base = f"http://127.0.0.1:{server.server_address[1]}{prefix}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
