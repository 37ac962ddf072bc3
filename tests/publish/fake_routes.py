"""The routes of the fake GitHub that the gate uses, with the scope that each needs."""

from __future__ import annotations

import re
from typing import Any

from githubkit_schemas.latest import models

from tests.publish.fake_state import REPO, REPO_ID, Answer, Refuse, State, Token, repository, user
from tests.publish.filler import minimal


class FakeGitHub(State):
    """The state and the routes."""

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
