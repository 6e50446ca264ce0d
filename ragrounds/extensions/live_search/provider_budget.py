"""Limits of a search provider: how long a query may be, how many requests a second, how long it is waited for.

Requests to one provider leave one after another at its rate, whichever part of this process makes them. When it reports
too many requests (429) or fails, all of them wait: as long as it asks (``Retry-After``), or twice as long each time.
A search is given up in these cases:

* a query that it refuses (400, 413, 414, 422) costs that search alone: :class:`SearchRefused`;
* faults that pass (5xx, a cut connection, an answer that cannot be read) are tried :data:`TRIES` times, then the search
  is given up: :class:`SearchFailed`;
* its address does not respond, or it asks to wait, for longer than :attr:`ProviderBudget.wait`; the key is wrong or
  the plan is used up: every further search would end alike, so :class:`~ragrounds.base.errors.StopRun` ends the run,
  which goes on from there another time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta

from ragrounds.base.contracts import SearchNote
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.http import retry_after
from ragrounds.base.request_pace import SLEEPING, share
from ragrounds.base.specs import Spec
from ragrounds.tools.search_notes import SEARCH_NOTES

T = TypeVar("T")
TRIES = 7
"""Number of tries of a search after faults that pass: half a minute with the waits between them."""
TOGETHER = 8
"""Number of concurrent requests to a provider."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds between tries if the provider does not name a time."""
_LONG = 1.0
"""Seconds of a wait from which an attempt makes room for another meanwhile."""


class SearchFailed(Exception):
    """A search that gave no answer, with the reason, which never holds a key. `kind` is the fault."""

    def __init__(self, message: str, kind: str = "search") -> None:
        super().__init__(message)
        self.kind = kind


class SearchRefused(SearchFailed):
    """A query that the provider does not take, and would not take another time."""


class PassingFault(Exception):
    """A request that failed and may succeed later.

    Args:
        kind: ``rate_limit``, ``connection`` (no server answers), ``server`` (an error, no answer in time) or
            ``malformed``.
        message: description of the fault, without keys.
        wait: seconds that the provider asks to wait; ``None`` if it names no time.
    """

    def __init__(self, kind: str, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.wait = wait


_ENDLESS = 1e12


class ProviderBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a provider."""

    rate: Annotated[float, Meta(gt=0, lt=_ENDLESS)]
    """Requests a second, over all of this command."""
    length: Annotated[int, Meta(gt=0)] | None = None
    """Number of characters of a query, as UTF-16 counts them; ``None`` if there is no limit."""
    words: Annotated[int, Meta(gt=0)] | None = None
    """Number of words of a query."""
    price: Annotated[float, Meta(ge=0, lt=_ENDLESS)] | None = None
    """Dollars a request; ``None`` if unknown."""
    wait: Annotated[float, Meta(ge=0, lt=_ENDLESS)] = 300.0
    """Seconds that a search waits for a provider that answers 429 or does not respond."""


LIMITS = ("rate", "length", "words", "price", "wait")
"""Parameters of a spec that set a budget's fields."""
_EFFECTIVE = ("length", "words")
"""Limits that affect the results."""


def budget_of(spec: Spec, default: ProviderBudget) -> ProviderBudget:
    """Return a provider's budget, with the changes of its spec: ``tavily[rate=2,wait=60]``.

    Raises:
        UserError: a value is not a number of its kind.
    """
    values = {name: spec.parameters[name] for name in LIMITS if name in spec.parameters}
    try:
        return msgspec.convert({**msgspec.structs.asdict(default), **values}, ProviderBudget)
    except msgspec.ValidationError as problem:
        raise UserError(f"Cannot use {str(spec)!r}: {problem}.") from None


def effective(spec: Spec) -> Spec:
    """Return the spec without parameters that do not affect the results.

    Its text is a part of the key of every search.
    """
    parameters = {key: value for key, value in spec.parameters.items() if key not in LIMITS or key in _EFFECTIVE}
    return Spec(spec.name, parameters)


def fitted(query: str, budget: ProviderBudget, who: str) -> str:
    """Return a query as long as the provider takes it, cut after a word. A cut is noted on the search."""
    flat = " ".join(query.split())
    words = flat.split(" ")
    shortened = " ".join(words[: budget.words]) if budget.words else flat
    if budget.length and _units(shortened) > budget.length:
        cut = shortened.encode("utf-16-le")[: 2 * budget.length].decode("utf-16-le", "ignore")
        before, space, _ = cut.rpartition(" ")
        shortened = before if space and not shortened.startswith(cut + " ") else cut
    if shortened == flat:
        return query if _units(query) <= (budget.length or _units(query)) else flat
    limits = [f"{budget.length} characters"] if budget.length else []
    limits += [f"{budget.words} words"] if budget.words else []
    text = (
        f"{who} takes {' and '.join(limits)}: the query's first {len(shortened)} of {len(flat)} characters "
        f"({shortened.count(' ') + 1} of {len(words)} words) were searched for"
    )
    SEARCH_NOTES.report(SearchNote("query_cut", text))
    return shortened


def _units(text: str) -> int:
    """Return the number of UTF-16 units, as JavaScript and Java count characters."""
    return len(text) + sum(letter > "\uffff" for letter in text)


class ProviderTraffic:
    """Requests of this process to a provider."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._slots = asyncio.Semaphore(TOGETHER)
        self._numbers = itertools.count(1)
        self._next = self._paused_until = 0.0
        self._cut_at = self._rounds = 0
        self._gone_since: float | None = None
        self._ended, self._why_ended = 0.0, ""
        """Time at which a search last ended the run because the provider does not respond, and the reason."""
        self.answered = False
        """True if the provider has ever given an answer in this process."""

    async def ask(self, once: Callable[[], Awaitable[T]], budget: ProviderBudget) -> T:
        """Return the answer to a request, which is made in its turn, and again after each fault that passes.

        Raises:
            SearchFailed: the tries, or the time, are over.
            StopRun: the provider does not respond, or asks to wait for longer than the budget has.
        """
        tries, first_fault, started = 0, None, time.monotonic()
        while True:
            # In a long wait the attempt makes room for another.
            while (left := self._paused_until - time.monotonic()) > 0:
                await (asyncio.sleep if left < _LONG else SLEEPING.get())(left)
            if started < self._ended:  # another search has waited for it long enough
                raise StopRun(self._why_ended)
            async with self._slots:
                # No long wait inside the slot: it may need a resource of an attempt that waits for this slot.
                if not await self._wait_for_turn(budget.rate):
                    continue
                number = next(self._numbers)
                try:
                    answer = await once()
                except PassingFault as fault:
                    error = fault
                else:
                    self._rounds, self._gone_since, self.answered = 0, None, True
                    return answer
            now = time.monotonic()
            first_fault = first_fault or now
            if error.kind == "connection":
                self._gone_since = self._gone_since or now
                left = self._gone_since + budget.wait - now
                if left <= 0:
                    self._ended = now
                    self._why_ended = (
                        f"{self._who} has given no answer for {now - self._gone_since:.0f} s: {error}. What is done is "
                        "kept: the same command goes on from there when it is back."
                    )
                    raise StopRun(self._why_ended)
                self._pause(error, number, left)
                continue
            self._pause(error, number, LONGEST_WAIT)
            if error.kind == "rate_limit":
                if (error.wait or 0.0) > budget.wait:
                    raise StopRun(
                        f"{error}. It asks to wait {error.wait:,.0f} s, and wait={budget.wait:g} is the most that is "
                        "waited. What is done is kept: the same command goes on from there."
                    )
                if now - first_fault >= budget.wait:
                    raise SearchFailed(f"{error}, for {now - first_fault:.0f} s", error.kind)
                continue
            tries += 1
            if tries >= TRIES:
                raise SearchFailed(f"{error} (gave up after {TRIES} tries)", error.kind)

    def _pause(self, fault: PassingFault, number: int, longest: float) -> None:
        """Make every request wait, at most `longest` seconds if the provider names no time.

        Faults of requests that left before the last pause began add no information, unless the provider asks for a
        longer wait.
        """
        now = time.monotonic()
        if fault.wait is not None:
            pause = fault.wait
        elif number > self._cut_at:
            pause = min(longest, LONGEST_WAIT, FIRST_WAIT * 2 ** min(self._rounds, 20) * random.uniform(0.75, 1.0))
        else:
            return
        if number > self._cut_at:
            self._rounds += 1
            self._cut_at = next(self._numbers)
        self._paused_until = max(self._paused_until, now + pause)

    async def _wait_for_turn(self, rate: float) -> bool:
        """Wait for the next moment that the rate allows, and return True if a request may leave then."""
        now = time.monotonic()
        if now < self._paused_until:
            return False
        moment = max(now, self._next)
        self._next = moment + 1 / (rate * share())
        await asyncio.sleep(moment - now)
        return time.monotonic() >= self._paused_until


_traffic: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ProviderTraffic]] = WeakKeyDictionary()


def traffic_to(url: str, who: str) -> ProviderTraffic:
    """Return the traffic to a provider's address, one object for each event loop."""
    by_address = _traffic.setdefault(asyncio.get_running_loop(), {})
    if url not in by_address:
        by_address[url] = ProviderTraffic(who)
    return by_address[url]


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a provider asks to wait: ``Retry-After``, or the reset of a window of
    ``X-RateLimit-Remaining`` in which nothing is left. Return ``None`` if it names no time. `headers` has names in
    lower case.
    """
    if (seconds := retry_after(headers)) is not None:
        return seconds
    try:
        left = [float(part) for part in headers.get("x-ratelimit-remaining", "").split(",")]
        resets = [float(part) for part in headers.get("x-ratelimit-reset", "").split(",")]
        # Some servers send the time of the reset in place of the seconds until it.
        waits = [reset if reset < 1e8 else reset - time.time() for reset in resets]
        return max((wait for rest, wait in zip(left, waits, strict=False) if rest <= 0 <= wait), default=None)
    except (ValueError, TypeError, OverflowError):
        return None
