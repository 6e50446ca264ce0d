"""How a call to a model can end without a reply, and what follows from it.

Three ends: a *transient* fault is tried again (here, in one place), a failed call ends its attempt, and
:class:`ragrounds.errors.StopRun` ends the run because every further call would fail alike.

A prompt that is too long for its model, as servers say it: how long it was, and how long it may be.

How a call waits before another try.

Whoever runs many attempts sets :data:`sleeping`, so that an attempt that waits for ``Retry-After`` gives its place to
another one; by default a wait is a wait.

The one place where calls are tried again (tenacity); every client below it is told not to retry.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import TypeVar

import tenacity
from msgspec import Struct

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
        r"contains # tokens",
        r"Given: # `inputs` tokens",
    )
)


class TooLong(Struct, frozen=True):
    """What a server said of a prompt that is too long for its model; ``None``: it did not say."""

    size: int | None
    """Tokens asked for, with those of the answer where the server counts them in."""
    limit: int | None
    """Tokens that the model takes."""

    def failed(self, said: str) -> CallFailed:
        """The failure, with both figures first."""
        size = f"{self.size:,} tokens" if self.size is not None else "a size the server does not tell"
        limit = f"{self.limit:,}" if self.limit is not None else "not told"
        return CallFailed("context_too_long", f"{size}, the model's limit is {limit}: {said}")


def too_long(code: str, said: str, fields: dict[str, object] | None = None) -> TooLong | None:
    """What an error says of a prompt's length; ``None``: it is another error.

    Args:
        code: The error's code or type.
        said: Its message.
        fields: Its other fields: llama.cpp gives figures of their own.
    """
    if code not in _CODES and not _ABOUT.search(said):
        return None
    fields = fields or {}
    size, limit = fields.get("n_prompt_tokens"), fields.get("n_ctx")
    return TooLong(
        size if isinstance(size, int) else _first(_SIZES, said),
        limit if isinstance(limit, int) else _first(_LIMITS, said),
    )


def _first(patterns: tuple[re.Pattern[str], ...], said: str) -> int | None:
    for pattern in patterns:
        if found := pattern.search(said):
            return int(found.group(1).replace(",", ""))
    return None


Sleep = Callable[[float], Awaitable[None]]


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


sleeping: ContextVar[Sleep] = ContextVar("sleeping", default=_sleep)
"""Seconds → a wait, in the attempt that is now running."""


T = TypeVar("T")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long a call is tried: at most `tries` times, and no new try after `seconds`."""

    tries: int = 6
    seconds: float = 300.0
    first_wait: float = 0.5
    longest_wait: float = 60.0


async def with_retries(call: Callable[[], Awaitable[T]], patience: RetryPolicy, faults: list[Fault]) -> T:
    """Await `call()`, again after each :class:`Transient` fault, with exponential waits and full jitter.

    ``Retry-After`` is obeyed: the wait is never shorter than the server asked for. A wish beyond the patience ends
    the call at once instead of hanging. Each failed try is appended to `faults`.

    Raises:
        CallFailed: the patience ran out.
    """
    begun = time.monotonic()
    try:
        return await call()
    except Transient as fault:
        # Most calls end here: tenacity is only set up for one that met a fault, which it is told of as its first try.
        met = [fault]

    async def once() -> T:
        if met:
            raise met.pop()
        return await call()

    retrying = tenacity.AsyncRetrying(
        sleep=sleeping.get(),
        retry=tenacity.retry_if_exception_type(Transient),
        wait=lambda state: _wait(state, patience),
        stop=lambda state: _over(state, patience, time.monotonic() - begun),
        before_sleep=lambda state: _remember(state, faults),
        reraise=True,
    )
    try:
        return await retrying(once)
    except Transient as last:
        faults.append(Fault(kind=last.kind, message=last.message, status=last.status))
        tries = len(faults)
        message = f"{last.message} (gave up after {tries} {'try' if tries == 1 else 'tries'})"
        raise CallFailed(last.kind, message, faults) from last


def _fault(state: tenacity.RetryCallState) -> Transient | None:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, Transient) else None


def _wait(state: tenacity.RetryCallState, patience: RetryPolicy) -> float:
    fault = _fault(state)
    ceiling = min(patience.longest_wait, patience.first_wait * 2 ** (state.attempt_number - 1))
    wait = random.uniform(ceiling / 2, ceiling)
    if fault and fault.retry_after is not None:
        # A little spread, so that a hundred waiting calls do not come back in the same instant.
        return fault.retry_after + random.uniform(0, min(1.0, 0.1 + fault.retry_after / 10))
    return wait


def _over(state: tenacity.RetryCallState, patience: RetryPolicy, elapsed: float) -> bool:
    fault = _fault(state)
    wish = fault.retry_after if fault and fault.retry_after is not None else 0.0
    return state.attempt_number >= patience.tries or elapsed + wish > patience.seconds


def _remember(state: tenacity.RetryCallState, faults: list[Fault]) -> None:
    fault = _fault(state)
    if fault:
        waited = state.next_action.sleep if state.next_action else 0.0
        faults.append(Fault(kind=fault.kind, message=fault.message, status=fault.status, waited=round(waited, 3)))
