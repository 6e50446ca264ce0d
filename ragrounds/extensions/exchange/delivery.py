"""Sending to a server that takes traces: in batches, with retries, and so that one refused item ends nothing.

A batch that the server refuses is halved until what it does not want stands alone; that is counted, with the reason.
What is sent has ids of its own, so doing it again after a broken connection doubles nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from ragrounds.base.addresses import check_address
from ragrounds.base.errors import UserError
from ragrounds.base.http import BadReply, HttpAnswer, HttpClient, in_background, read_json, retry_after, root_cause
from ragrounds.base.redaction import Redactor
from ragrounds.base.text import safe
from ragrounds.extensions.exchange.formats import Progress

I = TypeVar("I")  # noqa: E741 - items
_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between tries, where the server does not say."""
_LONGEST = 60.0
"""Seconds that a server may ask to wait."""
_IN_A_ROW = 100
"""Refused items, with none taken, after which it is the server or the export, and no single item."""
_ABOUT_ITEMS = (400, 409, 413, 422)
_PASSING = (408, 429, 500, 502, 503, 504)


class Refusal(Struct, frozen=True):
    """What a server says of a batch that it took: how many items it did not want, and why."""

    count: int
    reason: str


def check_server(endpoint: str, name: str, example: str, *keys: str, needed: bool = True) -> None:
    """Refuse to send without an address of the server, or without the variables that hold its keys.

    Raises:
        UserError: the address is missing or holds a key, or a variable that is `needed` is not set.
    """
    check_address(endpoint, f"set {' and '.join(keys)}")
    if not endpoint:
        raise UserError(f"Say where {name} is: --endpoint {example}. Nothing was sent.")
    if unset := [key for key in keys if needed and not os.environ.get(key, "").strip()]:
        raise UserError(f"{' and '.join(unset)} is not set: {name} needs a key.")


def _one_as_json(items: Sequence[object]) -> bytes:
    return msgspec.json.encode(items[0])


class Delivery(Generic[I]):
    """Items of one kind on their way to one address; counts what became of them.

    Args:
        url: Where they are posted.
        what: What they are, as in ``annotations``.
        encode: Makes the body of a request from some items; by default from the first alone.
        headers: Of every request; the content type is JSON where they name none.
        secrets: Taken out of what the server says.
        progress: Is told how many have been sent.
        read: Reads an answer, and gives what was not wanted although the request was taken.
        at_once: Requests in flight.
        pause: Waits some seconds.
    """

    def __init__(
        self,
        url: str,
        what: str,
        encode: Callable[[Sequence[I]], bytes] = _one_as_json,
        *,
        headers: Mapping[str, str],
        secrets: Iterable[str] = (),
        progress: Progress = lambda what, done: None,
        read: Callable[[HttpAnswer], Refusal | None] = lambda answer: None,
        at_once: int = 1,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url
        self.what = what
        self.taken = self.known = self.refused = 0
        """Items that the server took, that it had before, and that it did not want."""
        self.reason = ""
        """Why it did not want the first of these."""
        self._encode = encode
        self._redact = Redactor(*secrets)
        self._client = HttpClient(url, {"Content-Type": "application/json", **headers}, 120.0, self._redact)
        self._progress = progress
        self._read = read
        self._at_once = at_once
        self._pause = pause

    def deliver(self, batches: Iterable[Sequence[I]]) -> None:
        """Send some batches.

        Raises:
            UserError: the server cannot be reached, wants another key or address, or takes nothing at all.
        """
        waiting = iter(batches)
        try:
            while some := list(itertools.islice(waiting, self._at_once)):
                in_background(self._together(some))
        finally:
            in_background(self._client.close())
        if self.refused and not self.taken + self.known:
            raise self._useless(self.reason)

    def words(self) -> str:
        """What became of them, in words."""
        more = [f"{self.known:,} were there already"] if self.known else []
        more += [f"{self.refused:,} refused ({self.reason})"] if self.refused else []
        return f"{self.taken:,} {self.what} sent" + "".join(f", {text}" for text in more)

    async def _together(self, batches: Sequence[Sequence[I]]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for batch in batches:
                    group.create_task(self._batch(batch))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _batch(self, items: Sequence[I]) -> None:
        answer = await self._answered(self._encode(items))
        if answer.status < 300:
            refusal = self._read(answer)
            self._count(taken=len(items) - (refusal.count if refusal else 0), refusal=refusal)
        elif answer.status == 409:
            self._count(known=len(items))
        elif len(items) > 1:
            await self._batch(items[: len(items) // 2])
            await self._batch(items[len(items) // 2 :])
        else:
            self._count(refusal=Refusal(1, f"{answer.status}: {self._said(answer)}"))
            if self.refused >= _IN_A_ROW and not self.taken + self.known:
                raise self._useless(self.reason)

    async def _answered(self, body: bytes) -> HttpAnswer:
        """The answer to a request, once it is about the items and not about the server."""
        waits = iter(_WAITS)
        while True:
            answer, fault = await self._tried(body)
            if answer is not None and (answer.status < 300 or answer.status in _ABOUT_ITEMS):
                return answer
            wait = next(waits, None)
            asked = None
            if answer is not None:
                fault = f"{answer.status}: {self._said(answer)}"
                if answer.status in (401, 403):
                    raise self._useless(f"{fault}. Is the key right, and may it write?")
                if answer.status not in _PASSING:
                    raise self._useless(f"{fault}. Is the address right?")
                if wait is None and answer.status == 500:
                    return answer  # perhaps one item is too much for it
                asked = retry_after(answer.headers)
            if wait is None:
                raise self._useless(f"{fault}, after {len(_WAITS) + 1} tries")
            await self._pause(wait if asked is None else min(asked, _LONGEST))

    async def _tried(self, body: bytes) -> tuple[HttpAnswer | None, str]:
        import aiohttp

        try:
            return await self._client.send("POST", "", body), ""
        except TimeoutError:
            return None, "no complete answer in time"
        except aiohttp.InvalidURL as error:
            raise UserError(f"{self.url!r} is no address of a server.") from error
        except aiohttp.ClientConnectorError as error:
            if not self.taken + self.known + self.refused:
                raise self._useless(f"it cannot be reached ({self._clean(root_cause(error))})") from error
            return None, "it cannot be reached any more"
        except BadReply as error:
            raise self._useless(error.message) from error
        except (aiohttp.ClientError, OSError) as error:
            return None, f"the connection was cut ({self._clean(root_cause(error))})"

    def _count(self, *, taken: int = 0, known: int = 0, refusal: Refusal | None = None) -> None:
        self.taken += taken
        self.known += known
        if refusal is not None and refusal.count:
            self.refused += refusal.count
            self.reason = self.reason or self._clean(refusal.reason)
        self._progress(self.what, self.taken + self.known + self.refused)

    def _said(self, answer: HttpAnswer) -> str:
        try:
            read = read_json(answer.body)
        except ValueError:
            read = answer.body.decode("utf-8", "replace")
        if isinstance(read, dict):
            read = next((read[key] for key in ("detail", "error", "message") if read.get(key)), read)
        return self._clean(str(read))

    def _clean(self, text: str) -> str:
        return safe(" ".join(self._redact(text).split()), 300)

    def _useless(self, why: str) -> UserError:
        sent = f"after {self.taken:,} of them" if self.taken else "at all"
        again = " The same command goes on: nothing is doubled." if self.taken else ""
        return UserError(f"{self._clean(self.url)} did not take the {self.what} {sent}: {why}.{again}")


def in_batches(
    items: Iterable[I], most: int, size: Callable[[I], int] = lambda item: 0, limit: int = 0
) -> Iterator[list[I]]:
    """Items some at a time: at most so many, and of at most so much size unless one alone is larger."""
    batch, held = list[I](), 0
    for item in items:
        own = size(item)
        if batch and (len(batch) >= most or (limit and held + own > limit)):
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += own
    if batch:
        yield batch
