"""Retries of a provider's call after a fault, and the waits between them.

Calls are retried only here: the retries of every client are switched off.
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
    """Limits of the retries of a call: at most `tries` tries, and no new try after `seconds`."""

    tries: int = 6
    seconds: float = 300.0
    first_wait: float = 0.5
    longest_wait: float = 60.0


async def with_retries(call: Callable[[], Awaitable[T]], policy: RetryPolicy, faults: list[Fault]) -> T:
    """Await `call()`, and again after each :class:`Transient` fault (tenacity).

    The longest wait doubles from try to try, and each wait is random in its upper half (equal jitter), so it is never
    short. If the server sent ``Retry-After``, the wait is that and up to a second more; a longer wait than the policy
    allows ends the call at once. Each failed try is appended to `faults`.

    Raises:
        CallFailed: the tries or the time ran out.
    """
    start = time.monotonic()
    try:
        return await call()
    except Transient as fault:
        # Most calls never fail: tenacity is set up only after a fault, which is replayed to it as its first try.
        pending_faults = [fault]
    import tenacity

    async def try_again() -> T:
        if pending_faults:
            raise pending_faults.pop()
        return await call()

    def should_stop(state: tenacity.RetryCallState) -> bool:
        wish = _fault(state).retry_after or 0.0
        return state.attempt_number >= policy.tries or time.monotonic() - start + wish > policy.seconds

    def record_fault(state: tenacity.RetryCallState) -> None:
        fault, waited = _fault(state), state.next_action.sleep if state.next_action else 0.0
        faults.append(_record(fault, waited))

    retrying = tenacity.AsyncRetrying(
        sleep=SLEEPING.get(),
        retry=tenacity.retry_if_exception_type(Transient),
        wait=lambda state: _wait(state.attempt_number, _fault(state), policy),
        stop=should_stop,
        before_sleep=record_fault,
        reraise=True,
    )
    try:
        return await retrying(try_again)
    except Transient as last:
        faults.append(_record(last, 0.0))
        count = len(faults)
        outcome = f"gave up after {count} {'try' if count == 1 else 'tries'}"
        wish = last.retry_after
        if wish is not None and time.monotonic() - start + wish > policy.seconds:
            outcome += (
                f": the server asked to wait {wish:,.0f} s, and a call may take {policy.seconds:,g} s (patience=…)"
            )
        message = f"{last.message} ({outcome})"
        raise CallFailed(last.kind, message, faults) from last
    except CallFailed as failed:
        failed.faults = failed.faults or tuple(faults)  # the tries before, whose tokens may have been counted
        raise


def _record(fault: Transient, waited: float) -> Fault:
    return Fault(
        kind=fault.kind, message=fault.message, status=fault.status, waited=round(waited, 3), usage=fault.usage
    )


def _fault(state: tenacity.RetryCallState) -> Transient:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, Transient):
        raise TypeError(f"a retry was asked for without a fault: {error!r}")
    return error


def _wait(tries: int, fault: Transient, policy: RetryPolicy) -> float:
    if fault.retry_after is not None:
        # A little longer, so that a hundred waiting calls do not return at the same instant.
        return fault.retry_after + random.uniform(0, min(1.0, 0.1 + fault.retry_after / 10))
    longest = min(policy.longest_wait, policy.first_wait * 2 ** (tries - 1))
    return random.uniform(longest / 2, longest)
