"""Decisions to publish, faults to plan, and what stands on the pull request afterwards."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gate.model.decision import Decision
from tests.publish.conftest import PULL, SHA
from tests.publish.fake import FakeGitHub, Fault
from tests.render.examples import BLOCKED, decision, row, slower


def passing() -> Decision:
    return decision([msgspec.structs.replace(row(i), verdict="improved", ratio=0.8) for i in range(4)])


def unchanged() -> Decision:
    return decision([row(i) for i in range(4)])


def blocked(count: int = 1) -> Decision:
    return decision([slower(i, 1.2 + i / 1000) for i in range(count)], **BLOCKED)


def one_body(github: FakeGitHub) -> str:
    (body,) = github.ours(PULL)
    return body


def state(github: FakeGitHub, sha: str = SHA) -> str:
    found = github.status(sha)
    assert found is not None
    return str(found["state"])


def shows(body: str, run: str) -> bool:
    return f"run={run} " in body.split("-->")[0]


def once(method: str, part: str, fault: Fault) -> Callable[[str, str], Fault | None]:
    """A plan with one fault: of the first request of this method whose path has this part."""
    left = [fault]
    return lambda verb, path: left.pop() if left and verb == method and part in path else None
