"""Knows what a failure of PyGithub means: refused, gone, passing, or unknown because a write may have landed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gate.publish.patience import Gone, Passing, Refused, Unknown

T = TypeVar("T")
SECONDARY_WAIT_S = 60.0  # GitHub's advice where a secondary limit names no time.


def called(call: Callable[[], T], *, write: bool) -> T:
    """The result of a PyGithub call, its failures as ours. Raises Refused, Gone, Passing or Unknown."""
    import github
    import requests

    try:
        return call()
    except github.GithubException as error:
        raise meaning(error.status, error.data, error.headers or {}, write=write) from None
    except requests.exceptions.ConnectTimeout as error:
        raise Passing(_words(error)) from None
    except (requests.exceptions.RequestException, AttributeError, KeyError, TypeError, ValueError) as error:
        # A dropped connection, a late answer or one that is not GitHub's: a write may be done.
        raise (Unknown(_words(error)) if write else Passing(_words(error))) from None


def meaning(status: int, data: Any, headers: Mapping[str, Any], *, write: bool) -> Exception:
    """One answer of GitHub as an exception."""
    message = data.get("message", "") if isinstance(data, dict) else str(data or "")
    message = " ".join(str(message).split())[:200] or "no message"
    if status == 429 or (status == 403 and _is_limit(message, headers)):
        return Passing(f"{status} {message}", wait_s=_wait_s(headers))
    if status >= 500:
        return Unknown(f"{status} {message}") if write else Passing(f"{status} {message}")
    return Gone(status, message) if status in (404, 410) else Refused(status, message)


def _is_limit(message: str, headers: Mapping[str, Any]) -> bool:
    return "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0" or "rate limit" in message.lower()


def _wait_s(headers: Mapping[str, Any]) -> float:
    named = str(headers.get("retry-after", ""))
    if named.isdigit():
        return float(named)
    reset = str(headers.get("x-ratelimit-reset", ""))
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
        return max(1.0, float(reset) - time.time())
    return SECONDARY_WAIT_S


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
