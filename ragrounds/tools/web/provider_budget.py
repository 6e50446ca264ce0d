"""What a search provider allows: how long a query may be, how many requests a second, how long it is waited for.

Requests to one provider leave one after another at its rate, whoever of this process makes them. When it says that it
is too many (429) or fails, all of them wait: as long as it asks (``Retry-After``), or twice as long each time. What is
given up, and when:

* a query that it refuses (400, 413, 414, 422) costs that search alone: :class:`SearchRefused`;
* faults that pass (5xx, a cut connection, an answer that cannot be read) are tried :data:`TRIES` times, then the search
  is given up: :class:`SearchFailed`;
* nobody answers at its address, or it asks to wait, for longer than :attr:`ProviderBudget.wait`; the key is wrong or
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
"""Of one search, where faults pass: half a minute with the waits between them."""
TOGETHER = 8
"""Requests to one provider at a time."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds between tries where the provider does not say how long."""
_LONG = 1.0
"""Seconds of a wait from which an attempt makes room for another meanwhile."""


class SearchFailed(Exception):
    """A search that gave no answer, with the reason; keys never stand in it. `kind` is the fault."""

    def __init__(self, message: str, kind: str = "search") -> None:
        super().__init__(message)
        self.kind = kind


class SearchRefused(SearchFailed):
    """A query that the provider does not take, and would not take another time."""


class PassingFault(Exception):
    """A request that failed and may succeed later.

    Args:
        kind: ``rate_limit``, ``connection`` (nobody is there), ``server`` (an error, no answer in time), ``malformed``.
        message: what happened, without keys.
        wait: seconds that the provider asks to wait; ``None``: it does not say.
    """

    def __init__(self, kind: str, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.wait = wait


_ENDLESS = 1e12


class ProviderBudget(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider allows."""

    rate: Annotated[float, Meta(gt=0, lt=_ENDLESS)]
    """Requests a second, of all of this command together."""
    length: Annotated[int, Meta(gt=0)] | None = None
    """Characters of a query, as UTF-16 counts them; ``None``: no limit of its own."""
    words: Annotated[int, Meta(gt=0)] | None = None
    """Words of a query."""
    price: Annotated[float, Meta(ge=0, lt=_ENDLESS)] | None = None
    """Dollars a request; ``None``: not known."""
    wait: Annotated[float, Meta(ge=0, lt=_ENDLESS)] = 300.0
    """Seconds that a search waits for a provider that says 429 or that is not there."""


LIMITS = ("rate", "length", "words", "price", "wait")
"""Parameters of a spec that stand for a budget's fields."""
_EFFECTIVE = ("length", "words")
"""Those of them that change what is found."""


def budget_of(spec: Spec, default: ProviderBudget) -> ProviderBudget:
    """A provider's budget, with what its spec says otherwise: ``tavily[rate=2,wait=60]``.

    Raises:
        UserError: a value that is no number of its kind.
    """
    given = {name: spec.parameters[name] for name in LIMITS if name in spec.parameters}
    try:
        return msgspec.convert({**msgspec.structs.asdict(default), **given}, ProviderBudget)
    except msgspec.ValidationError as problem:
        raise UserError(f"Cannot use {str(spec)!r}: {problem}.") from None


def effective(spec: Spec) -> Spec:
    """The spec without what changes nothing of what is found: its text is a part of the key of every search."""
    kept = {key: value for key, value in spec.parameters.items() if key not in LIMITS or key in _EFFECTIVE}
    return Spec(spec.name, kept)


def fitted(query: str, budget: ProviderBudget, who: str) -> str:
    """A query as long as the provider takes it, cut after a word; a cut is noted on the search."""
    flat = " ".join(query.split())
    words = flat.split(" ")
    kept = " ".join(words[: budget.words]) if budget.words else flat
    if budget.length and _units(kept) > budget.length:
        cut = kept.encode("utf-16-le")[: 2 * budget.length].decode("utf-16-le", "ignore")
        before, space, _ = cut.rpartition(" ")
        kept = before if space and not kept.startswith(cut + " ") else cut
    if kept == flat:
        return query if _units(query) <= (budget.length or _units(query)) else flat
    limits = [f"{budget.length} characters"] if budget.length else []
    limits += [f"{budget.words} words"] if budget.words else []
    text = (
        f"{who} takes {' and '.join(limits)}: the query's first {len(kept)} of {len(flat)} characters "
        f"({kept.count(' ') + 1} of {len(words)} words) were searched for"
    )
    SEARCH_NOTES.report(SearchNote("query_cut", text))
    return kept


def _units(text: str) -> int:
    """Characters as JavaScript and Java count them."""
    return len(text) + sum(letter > "\uffff" for letter in text)


class ProviderTraffic:
    """The requests to one provider, from all of this process that ask it."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._places = asyncio.Semaphore(TOGETHER)
        self._numbers = itertools.count(1)
        self._next = self._paused_until = 0.0
        self._cut_at = self._rounds = 0
        self._gone_since: float | None = None
        self._ended, self._why_ended = 0.0, ""
        """When a search last ended the run because nobody is there."""
        self.answered = False
        """Whether it has ever given an answer here."""

    async def ask(self, once: Callable[[], Awaitable[T]], budget: ProviderBudget) -> T:
        """What one request gives, in its turn, and again after each fault that passes.

        Raises:
            SearchFailed: the tries, or the time, are over.
            StopRun: nobody is there, or it asks to wait for longer than the budget has.
        """
        tries, first_fault, begun = 0, None, time.monotonic()
        while True:
            await self._unpaused()
            if begun < self._ended:  # another search has waited for it long enough
                raise StopRun(self._why_ended)
            async with self._places:
                # No long wait in here: it may need what an attempt holds that waits for this place.
                if not await self._turn(budget.rate):
                    continue
                number = next(self._numbers)
                try:
                    given = await once()
                except PassingFault as fault:
                    met = fault
                else:
                    self._rounds, self._gone_since, self.answered = 0, None, True
                    return given
            now = time.monotonic()
            first_fault = first_fault or now
            if met.kind == "connection":
                self._gone_since = self._gone_since or now
                left = self._gone_since + budget.wait - now
                if left <= 0:
                    self._ended, self._why_ended = now, self._gone(met, now - self._gone_since)
                    raise StopRun(self._why_ended)
                self._pause(met, number, left)
                continue
            self._pause(met, number, LONGEST_WAIT)
            if met.kind == "rate_limit":
                if (met.wait or 0.0) > budget.wait:
                    raise StopRun(
                        f"{met}. It asks to wait {met.wait:,.0f} s, and wait={budget.wait:g} is the most that is "
                        "waited. What is done is kept: the same command goes on from there."
                    )
                if now - first_fault >= budget.wait:
                    raise SearchFailed(f"{met}, for {now - first_fault:.0f} s", met.kind)
                continue
            tries += 1
            if tries >= TRIES:
                raise SearchFailed(f"{met} (gave up after {TRIES} tries)", met.kind)

    def _gone(self, fault: PassingFault, seconds: float) -> str:
        return (
            f"{self._who} has given no answer for {seconds:.0f} s: {fault}. What is done is kept: the same command "
            "goes on from there when it is back."
        )

    def _pause(self, fault: PassingFault, number: int, most: float) -> None:
        """Have every request wait, at most `most` seconds where the provider does not say how long. Faults of requests
        that left before the last pause began say nothing new, unless the provider asks for longer."""
        now = time.monotonic()
        if fault.wait is not None:
            pause = fault.wait
        elif number > self._cut_at:
            pause = min(most, LONGEST_WAIT, FIRST_WAIT * 2 ** min(self._rounds, 20) * random.uniform(0.75, 1.0))
        else:
            return
        if number > self._cut_at:
            self._rounds += 1
            self._cut_at = next(self._numbers)
        self._paused_until = max(self._paused_until, now + pause)

    async def _unpaused(self) -> None:
        """Wait until nobody is told to wait any more. In a long wait the attempt makes room for another."""
        while (left := self._paused_until - time.monotonic()) > 0:
            await (asyncio.sleep if left < _LONG else SLEEPING.get())(left)

    async def _turn(self, rate: float) -> bool:
        """Wait for the next moment that the rate allows; whether a request may leave then."""
        now = time.monotonic()
        if now < self._paused_until:
            return False
        at = max(now, self._next)
        self._next = at + 1 / (rate * share())
        await asyncio.sleep(at - now)
        return time.monotonic() >= self._paused_until


_traffic: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ProviderTraffic]] = WeakKeyDictionary()


def traffic_to(place: str, who: str) -> ProviderTraffic:
    """The traffic to a provider's address: one for all of the running event loop that ask it."""
    here = _traffic.setdefault(asyncio.get_running_loop(), {})
    if place not in here:
        here[place] = ProviderTraffic(who)
    return here[place]


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Seconds that a provider asks to wait: ``Retry-After``, or the reset of a window of ``X-RateLimit-Remaining`` in
    which nothing is left; ``None``: it does not say. `headers` has names in lower case."""
    if (asked := retry_after(headers)) is not None:
        return asked
    try:
        left = [float(part) for part in headers.get("x-ratelimit-remaining", "").split(",")]
        resets = [float(part) for part in headers.get("x-ratelimit-reset", "").split(",")]
        # Some give the moment in place of the seconds until it.
        waits = [reset if reset < 1e8 else reset - time.time() for reset in resets]
        return max((wait for rest, wait in zip(left, waits, strict=False) if rest <= 0 <= wait), default=None)
    except (ValueError, TypeError, OverflowError):
        return None
