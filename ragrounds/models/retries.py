"""The retry of a provider's call: when one that met a fault is made again, and after which wait.

It is done here and nowhere else: every client is told not to retry.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from ragrounds.models.faults import CallFailed, Transient
from ragrounds.records import Fault
from ragrounds.request_pace import SLEEPING

T = TypeVar("T")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long a call is tried: at most `tries` times, and no new try after `seconds`."""

    tries: int = 6
    seconds: float = 300.0
    first_wait: float = 0.5
    longest_wait: float = 60.0


async def with_retries(call: Callable[[], Awaitable[T]], policy: RetryPolicy, faults: list[Fault]) -> T:
    """Await `call()`, and again after each :class:`Transient` fault.

    The longest wait doubles from try to try, and each wait is drawn from its upper half (equal jitter), so it is never
    short. Where the server sent ``Retry-After``, the wait is that and up to a second more; a wish beyond the policy
    ends the call at once. Each failed try is appended to `faults`.

    Raises:
        CallFailed: the tries or the time ran out.
    """
    begun, tries = time.monotonic(), 0
    while True:
        tries += 1
        try:
            return await call()
        except Transient as fault:
            late = time.monotonic() - begun + (fault.retry_after or 0.0) > policy.seconds
            over = late or tries >= policy.tries
            wait = 0.0 if over else _wait(tries, fault, policy)
            faults.append(Fault(kind=fault.kind, message=fault.message, status=fault.status, waited=round(wait, 3)))
            if over:
                count = len(faults)
                message = f"{fault.message} (gave up after {count} {'try' if count == 1 else 'tries'})"
                raise CallFailed(fault.kind, message, faults) from fault
        await SLEEPING.get()(wait)


def _wait(tries: int, fault: Transient, policy: RetryPolicy) -> float:
    if fault.retry_after is not None:
        # A little more, so that a hundred waiting calls do not come back in the same instant.
        return fault.retry_after + random.uniform(0, min(1.0, 0.1 + fault.retry_after / 10))
    longest = min(policy.longest_wait, policy.first_wait * 2 ** (tries - 1))
    return random.uniform(longest / 2, longest)
