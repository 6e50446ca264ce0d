"""Endings of a model call without a reply.

There are three. After a *transient* fault the call is tried again (:mod:`ragrounds.models.retries`). A failed call ends
its attempt. :class:`ragrounds.base.errors.StopRun` ends the run, as every further call would fail in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from ragrounds.base.http import is_transient_status
from ragrounds.base.records import Fault, Usage

FAILED_FINISHES = frozenset({"error", "abort", "aborted"})
"""Reasons why a reply ended that say that the provider failed; its text is not the model's answer."""


class Transient(Exception):
    """Fault after which a call is tried again; `retry_after`: seconds that the server asked to wait.

    `usage` has the tokens that the server counted for the failed try, if it said so.
    """

    usage: Usage | None = None

    def __init__(self, kind: str, message: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after


class CallFailed(Exception):
    """Call without a reply, after all tries or because the request is wrong; it ends the attempt as ``failed``."""

    def __init__(self, kind: str, message: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.faults = tuple(faults)

    @property
    def usage(self) -> Usage | None:
        """Return the tokens that the server counted for the tries; ``None`` if it counted none."""
        usages = [fault.usage for fault in self.faults if fault.usage]
        return sum(usages, Usage()) if usages else None


_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_ABOUT = re.compile(
    r"maximum context length|context length|context size|context window|maximum model length|"
    r"prompt is too long|input token count|maximum input length|too long for the model",
    re.IGNORECASE,
)
_NUMBER = r"(\d[\d,]*)"
_LIMITS = tuple(
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"context (?:length|window|size)(?: of this model)? (?:is|of)(?: only)? # ?(?:tokens)?",
        r"context (?:length|window|size)\D{0,12}\(#",
        r"maximum model length of #",
        r"> # maximum",
        r"maximum number of tokens allowed \(#",
        r"with # maximum context length",
        r"`max_new_tokens` must be <= #",
    )
)
_SIZES = tuple(
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"resulted in # tokens",
        r"requested(?: a total of)? # tokens",
        r"you sent #",
        r"\(length #\)",
        r"passed # input tokens",
        r"request has # input tokens",
        r"request \(# tokens\)",
        r"input \(# tokens\)",
        r"input token count \(#\)",
        r"too long: # tokens",
        r"contains (?:at least )?# (?:input )?tokens",
        r"Given: # `inputs` tokens",
    )
)


_SHORTER = "(Fewer or shorter passages, AGENT[top_k=…], or a model or server with a longer context.)"


class TooLong(Struct, frozen=True):
    """Prompt that is too long for its model, with the figures that the server gave; ``None`` if it gave none."""

    size: int | None
    """Tokens of the request, including those of the answer if the server counts them."""
    limit: int | None
    """Tokens that the model accepts."""

    def failed(self, message: str) -> CallFailed:
        """Return the failed call, with both figures first in its message."""
        size = f"{self.size:,} tokens" if self.size is not None else "a size that the server does not report"
        limit = f"{self.limit:,}" if self.limit is not None else "not given"
        return CallFailed("context_too_long", f"{size}, the model's limit is {limit}: {message} {_SHORTER}")


def too_long(code: str, message: str, fields: dict[str, object] | None = None) -> TooLong | None:
    """Return the figures of an error about a prompt's length; ``None`` if the error is about something else.

    Args:
        code: the error's code or type.
        message: the error's message.
        fields: the error's other fields: llama.cpp has fields for the figures.
    """
    if code not in _CODES and not _ABOUT.search(message):
        return None
    fields = fields or {}
    size, limit = fields.get("n_prompt_tokens"), fields.get("n_ctx")
    return TooLong(
        size if isinstance(size, int) else _first(_SIZES, message),
        limit if isinstance(limit, int) else _first(_LIMITS, message),
    )


def reply_fault(
    status: int | None, code: str, message: str, wait: float | None, fields: dict[str, object] | None = None
) -> CallFailed | Transient | None:
    """Return the fault of an error about the prompt's length or of one that may pass; ``None`` for any other error.

    Args:
        status: HTTP status; ``None`` if unknown.
        code, message, fields: see :func:`too_long`.
        wait: seconds that the server asked to wait.
    """
    # Some servers answer 500 to a long prompt, and would again. A limit of the rate has words about tokens, too.
    if status != 429 and (long := too_long(code, message, fields)):
        return long.failed(message)
    if status is not None and is_transient_status(status):
        return Transient("rate_limit" if status == 429 else "server", message, status, wait)
    return None


def _first(patterns: tuple[re.Pattern[str], ...], message: str) -> int | None:
    for pattern in patterns:
        if match := pattern.search(message):
            return int(match.group(1).replace(",", ""))
    return None
