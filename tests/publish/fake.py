"""A stateful GitHub on loopback: the routes the gate uses, tokens with scopes, pages, locks, limits and planted faults.

Every request and every response is held against the models that GitHub's OpenAPI description gives; what breaks them
is listed in `violations`, which every test asserts to be empty.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from githubkit_schemas.latest import models
from pydantic import TypeAdapter, ValidationError

from tests.publish.filler import minimal

BOT = "github-actions[bot]"
REPO = "ROCm/FlyDSL"
REPO_ID = 1001
FORK_ID = 2002
FULL = {"contents": "read", "actions": "read", "pull-requests": "write", "statuses": "write"}


@dataclass
class Fault:
    """One thing that goes wrong with a request: `kind` is a status, drop, hang or garbage; `when` before or after."""

    kind: str
    when: str = "before"


@dataclass
class Token:
    login: str = BOT
    type: str = "Bot"
    scopes: dict[str, str] = field(default_factory=lambda: dict(FULL))


@dataclass
class Answer:
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None


class Refuse(Exception):
    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.answer = Answer(status, {"message": message, "documentation_url": "https://docs", "status": str(status)})
        self.answer.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@cache
def adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


class FakeGitHub:
    """The state and the routes. `plan` is asked for a fault before each request; `turnstile` may hold one back."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tokens: dict[str, Token] = {"t": Token()}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.locked: set[int] = set()
        self.comments: dict[int, dict[str, Any]] = {}
        self.statuses: list[dict[str, Any]] = []
        self.runs: dict[tuple[int, int], dict[str, Any]] = {}
        self.artifacts: dict[int, dict[str, Any]] = {}
        self.blobs: dict[int, bytes] = {}
        self.commits: set[str] = set()
        self.files: dict[str, list[str]] = {}
        self.log: list[tuple[str, str, int]] = []
        self.violations: list[str] = []
        self.blob_authorizations: list[str | None] = []
        self.plan: Callable[[str, str], Fault | None] = lambda method, path: None
        self.turnstile: Callable[[str], None] = lambda token: None
        self.after: Callable[[str, str], None] = lambda method, path: None
        self.prefix = ""
        self._next = 10_000
        self.base = ""

    # What tests set up and look at.

    def number(self) -> int:
        self._next += 1
        return self._next

    def add_pull(
        self, number: int, sha: str, *, branch: str = "topic", repo: int | None = REPO_ID, owner: str = "ROCm"
    ) -> dict[str, Any]:
        self.commits.add(sha)
        head = {"sha": sha, "ref": branch, "label": f"{owner}:{branch}", "user": user(owner, "User")}
        head["repo"] = None if repo is None else repository(repo, f"{owner}/FlyDSL")
        base = {"sha": "b" * 40, "ref": "main", "label": "ROCm:main", "repo": repository(REPO_ID, REPO)}
        self.pulls[number] = {
            "number": number, "state": "open", "head": head, "base": {**base, "user": user("ROCm", "User")}
        }  # fmt: skip
        return self.pulls[number]

    def add_comment(self, pull: int, body: str, *, login: str = "ada", kind: str = "User") -> int:
        number = self.number()
        self.comments[number] = {"id": number, "issue": pull, "body": body, "user": user(login, kind)}
        return number

    def add_run(self, number: int, sha: str, *, attempt: int = 1, **fields: Any) -> dict[str, Any]:
        run = {
            "id": number, "run_attempt": attempt, "event": "pull_request", "path": ".github/workflows/gate.yml",
            "conclusion": "success", "status": "completed", "head_sha": sha, "head_branch": "topic",
            "pull_requests": [],
            "head_repository": repository(REPO_ID, REPO), "display_title": "a title", "name": "gate",
            "html_url": f"{self.base}/{REPO}/actions/runs/{number}",
        } | fields  # fmt: skip
        self.commits.add(sha)
        self.runs[number, attempt] = run
        return run

    def add_artifact(self, run: int, data: bytes, *, name: str = "flydsl-gate-results", **fields: Any) -> int:
        number = self.number()
        self.artifacts[number] = {
            "id": number, "name": name, "size_in_bytes": len(data), "expired": False, "run": run
        } | fields  # fmt: skip
        self.blobs[number] = data
        return number

    def on(self, pull: int) -> list[dict[str, Any]]:
        return [one for one in self.comments.values() if one["issue"] == pull]

    def ours(self, pull: int) -> list[str]:
        return [
            one["body"] for one in self.on(pull) if one["user"]["login"] == BOT and "flydsl-gate:" in one["body"][:40]
        ]

    def status(self, sha: str, context: str = "flydsl-gate") -> dict[str, Any] | None:
        """The status in force."""
        found = [one for one in self.statuses if one["sha"] == sha and one["context"] == context]
        return max(found, key=lambda one: one["id"], default=None)

    def count(self, method: str, part: str) -> int:
        return sum(1 for m, path, _ in self.log if m == method and part in path)

    # Routes.

    def answer(self, method: str, path: str, query: dict[str, str], body: Any, token: Token | None) -> Answer:
        for verb, pattern, scope, handler in ROUTES:
            found = pattern.fullmatch(path)
            if found and verb == method:
                if token is None:
                    raise Refuse(401, "Bad credentials")
                self._scoped(token, scope, method)
                done: Answer = handler(self, *found.groups(), query=query, body=body, token=token)
                return done
        self.violations.append(f"no route: {method} {path}")
        raise Refuse(404, "Not Found")

    def _scoped(self, token: Token, scope: str, method: str) -> None:
        has = token.scopes.get(scope)
        if has != "write" and (method != "GET" or has != "read"):
            raise Refuse(403, "Resource not accessible by integration", X_Accepted_GitHub_Permissions=f"{scope}=write")

    def get_repo(self, *, query: Any, body: Any, token: Token) -> Answer:
        return self.shown(
            models.FullRepository, minimal(models.FullRepository, id=REPO_ID, full_name=REPO, default_branch="main")
        )

    def get_pull(self, number: str, *, query: Any, body: Any, token: Token) -> Answer:
        pull = self.pulls.get(int(number))
        if pull is None:
            raise Refuse(404, "Not Found")
        return self.shown(models.PullRequest, minimal(models.PullRequest, **pull))

    def list_pulls(self, *, query: dict[str, str], body: Any, token: Token) -> Answer:
        owner, _, branch = query.get("head", "").partition(":")
        found = [
            pull for pull in self.pulls.values()
            if query.get("state", "open") in (pull["state"], "all")
            and (not branch or pull["head"]["label"] == f"{owner}:{branch}")
        ]  # fmt: skip
        return self.paged(models.PullRequestSimple, [minimal(models.PullRequestSimple, **one) for one in found], query)

    def list_comments(self, number: str, *, query: dict[str, str], body: Any, token: Token) -> Answer:
        found = [self._comment(one) for one in self.on(int(number))]
        return self.paged(models.IssueComment, found, query)

    def _comment(self, one: dict[str, Any]) -> dict[str, Any]:
        fields = {name: value for name, value in one.items() if name != "issue"}
        return minimal(models.IssueComment, issue_url=f"{self.base}/repos/{REPO}/issues/{one['issue']}", **fields)

    def post_comment(self, number: str, *, query: Any, body: Any, token: Token) -> Answer:
        self.checked(models.ReposOwnerRepoIssuesIssueNumberCommentsPostBody, body)
        if int(number) not in self.pulls:
            raise Refuse(404, "Not Found")
        self._writable(int(number), body["body"], token)
        made = self.add_comment(int(number), body["body"], login=token.login, kind=token.type)
        return self.shown(models.IssueComment, self._comment(self.comments[made]), status=201)

    def _writable(self, number: int, body: str, token: Token) -> None:
        if number in self.locked:
            raise Refuse(403, "Unable to create comment because issue is locked.")
        if not body or len(body) > 65_536:
            raise Refuse(422, "Validation Failed: body is too long (maximum is 65536 characters)")

    def patch_comment(self, number: str, *, query: Any, body: Any, token: Token) -> Answer:
        self.checked(models.ReposOwnerRepoIssuesCommentsCommentIdPatchBody, body)
        one = self._mine(number, token)
        self._writable(one["issue"], body["body"], token)
        one["body"] = body["body"]
        return self.shown(models.IssueComment, self._comment(one))

    def delete_comment(self, number: str, *, query: Any, body: Any, token: Token) -> Answer:
        one = self._mine(number, token)
        if one["issue"] in self.locked:
            raise Refuse(403, "Unable to create comment because issue is locked.")
        del self.comments[int(number)]
        return Answer(204)

    def _mine(self, number: str, token: Token) -> dict[str, Any]:
        one = self.comments.get(int(number))
        if one is None:
            raise Refuse(404, "Not Found")
        if one["user"]["login"] != token.login:
            raise Refuse(403, "Resource not accessible by integration")
        return one

    def list_statuses(self, sha: str, *, query: dict[str, str], body: Any, token: Token) -> Answer:
        found = sorted((one for one in self.statuses if one["sha"] == sha), key=lambda one: -one["id"])
        return self.paged(models.Status, [self._status(one) for one in found], query)

    def _status(self, one: dict[str, Any]) -> dict[str, Any]:
        return minimal(models.Status, **{name: value for name, value in one.items() if name != "sha"})

    def post_status(self, sha: str, *, query: Any, body: Any, token: Token) -> Answer:
        self.checked(models.ReposOwnerRepoStatusesShaPostBody, body)
        text = body.get("description") or ""
        if len(text) > 140 or any(ord(char) > 0xFFFF for char in text):
            raise Refuse(422, "Validation Failed: description is too long (maximum is 140 characters)")
        if sha not in self.commits:
            raise Refuse(422, f"No commit found for SHA: {sha}")
        fields = {"context": "default", "description": None, "target_url": None, **body}
        one = {"id": self.number(), "sha": sha, "creator": user(token.login, token.type), **fields}
        self.statuses.append(one)
        return self.shown(models.Status, self._status(one), status=201)

    def get_run(self, number: str, attempt: str | None = None, *, query: Any, body: Any, token: Token) -> Answer:
        attempts = [key for key in self.runs if key[0] == int(number) and attempt in (None, str(key[1]))]
        if not attempts:
            raise Refuse(404, "Not Found")
        run = self.runs[max(attempts)]
        fields = {"pull_requests": [], "repository": repository(REPO_ID, REPO), **run}
        fields["pull_requests"] = [self._minimal_pull(one) for one in fields["pull_requests"]]
        return self.shown(models.WorkflowRun, minimal(models.WorkflowRun, **fields))

    def _minimal_pull(self, number: int) -> dict[str, Any]:
        return minimal(models.PullRequestMinimal, number=number)

    def list_artifacts(self, run: str, *, query: dict[str, str], body: Any, token: Token) -> Answer:
        found = [
            minimal(
                models.Artifact,
                **{name: value for name, value in one.items() if name != "run"},
                workflow_run=minimal(models.ArtifactPropWorkflowRun, id=one["run"]),
            )
            for one in self.artifacts.values()
            if one["run"] == int(run)
        ]
        return self.paged(models.Artifact, found, query, element="artifacts")

    def get_archive(self, number: str, *, query: Any, body: Any, token: Token) -> Answer:
        if int(number) not in self.artifacts:
            raise Refuse(404, "Not Found")
        return Answer(302, headers={"Location": f"{self.base.replace('/api/v3', '')}/blob/{number}?sig=secret"})

    def compare(self, base: str, head: str, *, query: Any, body: Any, token: Token) -> Answer:
        files = [minimal(models.DiffEntry, filename=name) for name in self.files.get(head, ["gate/x.py"])]
        return self.shown(models.CommitComparison, minimal(models.CommitComparison, files=files))

    # Shape checks, pages.

    def checked(self, model: Any, body: Any) -> None:
        try:
            adapter(model).validate_python(body)
        except ValidationError as error:
            self.violations.append(f"request: {str(error)[:300]}")
            raise Refuse(422, "Validation Failed") from None
        extra = set(body) - {info.alias or name for name, info in model.model_fields.items()}
        if extra:
            self.violations.append(f"request: unknown fields {sorted(extra)}")

    def shown(self, model: Any, body: Any, *, status: int = 200) -> Answer:
        try:
            adapter(model).validate_python(body)
        except ValidationError as error:
            self.violations.append(f"response: {str(error)[:300]}")
        return Answer(status, body)

    def paged(self, model: Any, items: list[Any], query: dict[str, str], *, element: str | None = None) -> Answer:
        size = min(100, int(query.get("per_page", "30")))
        page = int(query.get("page", "1"))
        part = items[(page - 1) * size : page * size]
        self.shown(list[model], part)
        last = max(1, -(-len(items) // size))
        links = [("next", page + 1), ("last", last)] if page < last else []
        more = {
            "Link": ", ".join(
                f'<{self.base}{self.here}?per_page={size}&page={n}{self.rest}>; rel="{rel}"' for rel, n in links
            )
        }
        body = part if element is None else {"total_count": len(items), element: part}
        return Answer(200, body, more if links else {})

    here = ""
    rest = ""


_R = rf"/repos/{re.escape(REPO)}"
_N, _SHA = r"(\d+)", r"([0-9a-f]{40})"
ROUTES: tuple[tuple[str, re.Pattern[str], str, Any], ...] = tuple(
    (method, re.compile(_R + path), scope, handler)
    for method, path, scope, handler in (
        ("GET", "", "contents", FakeGitHub.get_repo),
        ("GET", rf"/pulls/{_N}", "pull-requests", FakeGitHub.get_pull),
        ("GET", "/pulls", "pull-requests", FakeGitHub.list_pulls),
        ("GET", rf"/issues/{_N}/comments", "pull-requests", FakeGitHub.list_comments),
        ("POST", rf"/issues/{_N}/comments", "pull-requests", FakeGitHub.post_comment),
        ("PATCH", rf"/issues/comments/{_N}", "pull-requests", FakeGitHub.patch_comment),
        ("DELETE", rf"/issues/comments/{_N}", "pull-requests", FakeGitHub.delete_comment),
        ("GET", rf"/commits/{_SHA}/statuses", "statuses", FakeGitHub.list_statuses),
        ("POST", rf"/statuses/{_SHA}", "statuses", FakeGitHub.post_status),
        ("GET", rf"/actions/runs/{_N}", "actions", FakeGitHub.get_run),
        ("GET", rf"/actions/runs/{_N}/attempts/{_N}", "actions", FakeGitHub.get_run),
        ("GET", rf"/actions/runs/{_N}/artifacts", "actions", FakeGitHub.list_artifacts),
        ("GET", rf"/actions/artifacts/{_N}/zip", "actions", FakeGitHub.get_archive),
        ("GET", rf"/compare/{_SHA}\.\.\.{_SHA}", "contents", FakeGitHub.compare),
    )
)


def user(login: str, kind: str) -> dict[str, Any]:
    return minimal(models.SimpleUser, login=login, type=kind)


@cache
def _repository(number: int, name: str) -> dict[str, Any]:
    owner, _, short = name.partition("/")
    fields = {"id": number, "name": short, "full_name": name, "default_branch": "main"}
    return minimal(models.Repository, **fields, owner=user(owner, "Organization"))


def repository(number: int, name: str) -> dict[str, Any]:
    return dict(_repository(number, name))


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


def tally(fake: FakeGitHub) -> Counter[str]:
    return Counter(method for method, _, _ in fake.log)
