"""The one place where calls are tried again (tenacity); every client below it is told not to retry."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import tenacity
from msgspec import Struct

from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.waiting import sleeping
from ragrounds.records import Fault

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
