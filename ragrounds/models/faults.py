"""How a call to a model can end without a reply, and what follows from it.

Three ends: a *transient* fault is tried again (here, in one place), a failed call ends its attempt, and
:class:`ragrounds.errors.StopRun` ends the run because every further call would fail alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ragrounds.records import Fault


class Transient(Exception):
    """Worth another try. `retry_after` is the server's own wish in seconds, where it gave one."""

    def __init__(self, kind: str, message: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after


class CallFailed(Exception):
    """No reply: not after all retries, or the request itself is wrong. Ends the attempt as ``failed``."""

    def __init__(self, kind: str, message: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.faults = tuple(faults)


_KEY_LIKE = re.compile(
    r"\b(sk|pk|rk|gsk|hf|tvly|AIza|ghp|xai|lsv2)[-_]?[A-Za-z0-9*_\-]{8,}|(?i:bearer)\s+[A-Za-z0-9._~+/=\-]{8,}"
)


def redacted(text: str, *secrets: str) -> str:
    """`text` without anything that is, or looks like, a key. Servers like to repeat the key they refused."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[key]")
    return _KEY_LIKE.sub("[key]", text)
