"""How a call to a model can end without a reply, and when it is tried again.

There are three ends. A *transient* fault is tried again, here and nowhere else: every client is told not to retry. A
failed call ends its attempt. :class:`ragrounds.errors.StopRun` ends the run, as every further call would fail alike.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from ragrounds.records import Fault
from ragrounds.request_pace import SLEEPING

if TYPE_CHECKING:
    import tenacity


class Transient(Exception):
    """A fault after which a call is tried again; `retry_after`: seconds that the server asked to wait."""

    def __init__(self, kind: str, message: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after


class CallFailed(Exception):
    """A call without a reply, after all tries or because the request is wrong; it ends the attempt as ``failed``."""

    def __init__(self, kind: str, message: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.faults = tuple(faults)


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
    """A prompt that is too long for its model: the figures that the server gave; ``None``: it gave none."""

    size: int | None
    """Tokens asked for, with those of the answer where the server counts them in."""
    limit: int | None
    """Tokens that the model takes."""

    def failed(self, said: str) -> CallFailed:
        """The failed call, with both figures first in its message."""
        size = f"{self.size:,} tokens" if self.size is not None else "a size the server does not tell"
        limit = f"{self.limit:,}" if self.limit is not None else "not given"
        return CallFailed("context_too_long", f"{size}, the model's limit is {limit}: {said}")


def too_long(code: str, said: str, fields: dict[str, object] | None = None) -> TooLong | None:
    """The figures of an error about a prompt's length; ``None``: it is about something else.

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


sleeping = SLEEPING


T = TypeVar("T")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long a call is tried: at most `tries` times, and no new try after `seconds`."""

    tries: int = 6
    seconds: float = 300.0
    first_wait: float = 0.5
    longest_wait: float = 60.0


async def with_retries(call: Callable[[], Awaitable[T]], policy: RetryPolicy, faults: list[Fault]) -> T:
    """Await `call()`, and again after each :class:`Transient` fault (tenacity).

    The longest wait doubles from try to try, and each wait is drawn from its upper half (equal jitter), so it is never
    short. Where the server sent ``Retry-After``, the wait is that and up to a second more; a wish beyond the policy
    ends the call at once. Each failed try is appended to `faults`.

    Raises:
        CallFailed: the tries or the time ran out.
    """
    begun = time.monotonic()
    try:
        return await call()
    except Transient as fault:
        # Most calls never come here: tenacity is set up for one that met a fault, which it is given as its first try.
        met = [fault]
    import tenacity

    async def once() -> T:
        if met:
            raise met.pop()
        return await call()

    def over(state: tenacity.RetryCallState) -> bool:
        wish = _fault(state).retry_after or 0.0
        return state.attempt_number >= policy.tries or time.monotonic() - begun + wish > policy.seconds

    def note(state: tenacity.RetryCallState) -> None:
        fault, waited = _fault(state), state.next_action.sleep if state.next_action else 0.0
        faults.append(Fault(kind=fault.kind, message=fault.message, status=fault.status, waited=round(waited, 3)))

    retrying = tenacity.AsyncRetrying(
        sleep=sleeping.get(),
        retry=tenacity.retry_if_exception_type(Transient),
        wait=lambda state: _wait(state.attempt_number, _fault(state), policy),
        stop=over,
        before_sleep=note,
        reraise=True,
    )
    try:
        return await retrying(once)
    except Transient as last:
        faults.append(Fault(kind=last.kind, message=last.message, status=last.status))
        count = len(faults)
        message = f"{last.message} (gave up after {count} {'try' if count == 1 else 'tries'})"
        raise CallFailed(last.kind, message, faults) from last


def _fault(state: tenacity.RetryCallState) -> Transient:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, Transient):
        raise TypeError(f"a retry was asked for without a fault: {error!r}")
    return error


def _wait(tries: int, fault: Transient, policy: RetryPolicy) -> float:
    if fault.retry_after is not None:
        # A little more, so that a hundred waiting calls do not come back in the same instant.
        return fault.retry_after + random.uniform(0, min(1.0, 0.1 + fault.retry_after / 10))
    longest = min(policy.longest_wait, policy.first_wait * 2 ** (tries - 1))
    return random.uniform(longest / 2, longest)
