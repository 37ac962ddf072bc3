"""The one door to GitHub: reads as values, writes that are sent again only when they did not land."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from gate.publish.patience import GaveUp, Gone, Patience, persist
from gate.publish.plan import Step
from gate.publish.translate import called
from gate.publish.values import ArtifactEntry, Comment, PostedStatus, Pull, Run, RunKey

T = TypeVar("T")
API = "https://api.github.com"
PAGE = 100
MOST_PAGES = 100
TIMEOUT_S = 20


class Hub(Protocol):
    """What posting needs of GitHub: where heads are, what is posted, and the writes."""

    def pull(self, number: int) -> Pull: ...
    def pulls(self, owner: str, branch: str) -> list[Pull]: ...
    def comments(self, pull: int) -> list[Comment]: ...
    def statuses(self, sha: str) -> list[PostedStatus]: ...
    def send(self, step: Step, *, pull: int | None, sha: str, context: str) -> None: ...


def api_url(environ: Mapping[str, str] = os.environ) -> str:
    """The API's address: GITHUB_API_URL, which Actions sets on GitHub Enterprise too."""
    return environ.get("GITHUB_API_URL", "").rstrip("/") or API


class GitHub:
    """`Hub` by PyGithub. Every retry is ours: PyGithub's own sends a POST again that has landed already."""

    def __init__(
        self, repo: str, *, token: str | None, base_url: str, patience: Patience, timeout_s: int = TIMEOUT_S
    ) -> None:
        import github

        self.repo_name, self.base_url, self.patience = repo, base_url, patience
        self._token, self.timeout_s = token, timeout_s
        self._client = github.Github(
            auth=github.Auth.Token(token) if token else None,
            base_url=base_url,
            timeout=timeout_s,
            per_page=PAGE,
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
        )
        self._repo = self._client.get_repo(repo)

    def authorization(self) -> dict[str, str]:
        """The header that says who asks; empty without a token."""
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _get(self, path: str, parse: Callable[[Any], T]) -> T:
        """One object. An answer that `parse` cannot read is a failure that may pass, as every bad answer is."""
        url = f"{self._repo.url}{path}"
        ask = self._client.requester.requestJsonAndCheck
        return persist(lambda: called(lambda: parse(ask("GET", url)[1]), write=False), self.patience)

    def _list(self, path: str, parse: Callable[[Any], T], *, element: str | None = None, **query: str) -> list[T]:
        """Every object of a list, page by page.

        By hand, since PyGithub's lazy objects ask for each element once more to give its raw data.
        """
        found: list[T] = []
        for page in range(1, MOST_PAGES + 1):
            items, more = self._page(path, parse, element, {**query, "per_page": PAGE, "page": page})
            found += items
            if not more:
                return found
        raise GaveUp(f"{path} has more than {MOST_PAGES * PAGE:,} entries")

    def _page(
        self, path: str, parse: Callable[[Any], T], element: str | None, query: dict[str, Any]
    ) -> tuple[list[T], bool]:
        def ask() -> tuple[list[T], bool]:
            url = f"{self._repo.url}{path}"
            headers, data = self._client.requester.requestJsonAndCheck("GET", url, parameters=query)
            items = data if element is None else data[element]
            return [parse(one) for one in items], 'rel="next"' in headers.get("link", "")

        return persist(lambda: called(ask, write=False), self.patience)

    def default_branch(self) -> str:
        """The branch that trusted code comes from."""
        return self._get("", lambda data: str(data["default_branch"]))

    def run(self, run_id: int, attempt: int | None) -> Run:
        """One attempt of a run, by default the latest; the fields are those of the API and no one else's."""
        return self._get(f"/actions/runs/{run_id}" + (f"/attempts/{attempt}" if attempt else ""), _run)

    def artifacts(self, run_id: int) -> list[ArtifactEntry]:
        """Every artifact of a run."""
        return self._list(f"/actions/runs/{run_id}/artifacts", _artifact, element="artifacts")

    def pull(self, number: int) -> Pull:
        """One pull request."""
        return self._get(f"/pulls/{number}", _pull)

    def pulls(self, owner: str, branch: str) -> list[Pull]:
        """The open pull requests from `owner:branch`; forks of one owner share that name."""
        return self._list("/pulls", _pull, state="open", head=f"{owner}:{branch}")

    def changed_files(self, base: str, head: str) -> list[str]:
        """The paths that differ between the merge base and `head`, old names of moved files too; at most 300 files."""
        return self._get(f"/compare/{base}...{head}", _files)

    def comments(self, pull: int) -> list[Comment]:
        """Every comment of a conversation."""
        return self._list(f"/issues/{pull}/comments", _comment)

    def statuses(self, sha: str) -> list[PostedStatus]:
        """Every status of a commit. PyGithub's own method asks a route that GitHub no longer describes."""
        return self._list(f"/commits/{sha}/statuses", _status)

    def send(self, step: Step, *, pull: int | None, sha: str, context: str) -> None:
        """Sends one write. Raises Refused, Unknown when it may have landed, or GaveUp when it did not."""
        method, path, body = request_of(step, pull=pull, sha=sha, context=context)
        url = f"{self._repo.url}{path}"
        try:
            persist(
                lambda: called(lambda: self._client.requester.requestJsonAndCheck(method, url, input=body), write=True),
                self.patience,
            )
        except Gone:
            if step.verb != "delete_comment":
                raise


def request_of(step: Step, *, pull: int | None, sha: str, context: str) -> tuple[str, str, dict[str, Any] | None]:
    """Method, path below the repository and JSON body of a write."""
    if step.verb == "create_comment":
        return "POST", f"/issues/{pull}/comments", {"body": step.body}
    if step.verb == "edit_comment":
        return "PATCH", f"/issues/comments/{step.id}", {"body": step.body}
    if step.verb == "delete_comment":
        return "DELETE", f"/issues/comments/{step.id}", None
    fields = {"state": step.state, "description": step.description, "context": context, "target_url": step.target_url}
    return "POST", f"/statuses/{sha}", {name: value for name, value in fields.items() if value}


def _run(data: Mapping[str, Any]) -> Run:
    head = data.get("head_repository") or {}
    return Run(
        key=RunKey(data["id"], data["run_attempt"]),
        event=data["event"],
        path=data["path"].partition("@")[0],
        title=data.get("display_title") or "",
        conclusion=data.get("conclusion"),
        head_sha=data["head_sha"],
        head_branch=data.get("head_branch"),
        head_repo=head.get("id"),
        head_owner=(head.get("owner") or {}).get("login"),
        url=data["html_url"].partition("/attempts/")[0],
        pulls=tuple(pull["number"] for pull in data.get("pull_requests") or ()),
    )


def _artifact(data: Mapping[str, Any]) -> ArtifactEntry:
    run = (data.get("workflow_run") or {}).get("id")
    return ArtifactEntry(
        id=data["id"], name=data["name"], size_bytes=data["size_in_bytes"], expired=data["expired"], run=run
    )


def _files(data: Mapping[str, Any]) -> list[str]:
    files = data.get("files") or []
    return [name for one in files for name in (one["filename"], one.get("previous_filename")) if name]


def _pull(data: Mapping[str, Any]) -> Pull:
    return Pull(
        number=data["number"],
        state=data["state"],
        head_sha=data["head"]["sha"],
        head_branch=data["head"]["ref"],
        head_repo=(data["head"].get("repo") or {}).get("id"),
        base_sha=data["base"]["sha"],
    )


def _comment(data: Mapping[str, Any]) -> Comment:
    user = data.get("user") or {}
    return Comment(
        id=data["id"], login=user.get("login", ""), user_type=user.get("type", ""), body=data.get("body") or ""
    )


def _status(data: Mapping[str, Any]) -> PostedStatus:
    return PostedStatus(
        id=data["id"],
        state=data["state"],
        context=data["context"],
        description=data.get("description") or "",
        target_url=data.get("target_url") or "",
        login=(data.get("creator") or {}).get("login", ""),
    )


def ours(posted: Sequence[PostedStatus], *, context: str, bot: str) -> list[PostedStatus]:
    """The statuses of our context that the bot posted; GitHub takes a context whatever its case."""
    return [one for one in posted if one.context.lower() == context.lower() and one.login == bot]
