"""What the fake GitHub holds, how tests set it up and look at it, and how its answers are checked and paged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

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


class State:
    """`plan` is asked for a fault before each request; `turnstile` may hold one back."""

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


def user(login: str, kind: str) -> dict[str, Any]:
    return minimal(models.SimpleUser, login=login, type=kind)


@cache
def _repository(number: int, name: str) -> dict[str, Any]:
    owner, _, short = name.partition("/")
    fields = {"id": number, "name": short, "full_name": name, "default_branch": "main"}
    return minimal(models.Repository, **fields, owner=user(owner, "Organization"))


def repository(number: int, name: str) -> dict[str, Any]:
    return dict(_repository(number, name))
