"""The retry of a provider's call: when one that met a fault is made again, and after which wait.

It is done here and nowhere else: every client is told not to retry.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from ragrounds.base.records import Fault
from ragrounds.base.request_pace import SLEEPING
from ragrounds.models.faults import CallFailed, Transient

if TYPE_CHECKING:
    import tenacity

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
        sleep=SLEEPING.get(),
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
