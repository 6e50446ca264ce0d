"""Delivery to a server that takes traces: in batches, with retries, and without stopping at a refused item.

A batch that the server refuses is halved until the refused item is alone; it is counted, with the reason. Items have
fixed ids, so sending them again after a broken connection creates no duplicates.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from ragrounds.base.addresses import check_address
from ragrounds.base.errors import UserError
from ragrounds.base.http import BadReply, HttpAnswer, HttpClient, in_background, read_json, retry_after, root_cause
from ragrounds.base.text import safe
from ragrounds.extensions.exchange.formats import Progress
from ragrounds.recorder.redaction import Redactor

I = TypeVar("I")  # noqa: E741 - items
_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between tries, if the server does not state any."""
_LONGEST = 60.0
"""Largest number of seconds that a server may request to wait."""
_IN_A_ROW = 100
"""Number of refused items, with none accepted, after which the cause is the server or the export, not a single item."""
_ABOUT_ITEMS = (400, 409, 413, 422)
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)


class Refusal(Struct, frozen=True):
    """Refusal by a server of items in a batch that it accepted: their number, and the reason."""

    count: int
    reason: str


def check_server(endpoint: str, name: str, example: str, *keys: str) -> None:
    """Raise UserError instead of sending without an address of the server, or without the variables that hold its keys.

    Raises:
        UserError: the address is missing or contains a key, or a variable is not set.
    """
    check_address(endpoint, f"set {' and '.join(keys)}")
    if not endpoint:
        raise UserError(f"Say where {name} is: --endpoint {example}. Nothing was sent.")
    if unset := [key for key in keys if not os.environ.get(key, "").strip()]:
        raise UserError(f"{' and '.join(unset)} is not set: {name} needs a key.")


class Delivery(Generic[I]):
    """Delivery of items of one kind to one address, with counts of the results.

    Args:
        url: address that items are posted to.
        batch_label: name of the items, such as ``annotations``.
        encode: function that makes the body of a request from some items; by default from the first only.
        headers: headers of every request; the content type is JSON unless they set it.
        secrets: texts that are removed from the server's messages.
        progress: called with the number of sent items.
        read: function that returns the refusal in the answer to an accepted request, if any.
        at_once: number of concurrent requests.
        pause: function that waits some seconds.
    """

    def __init__(
        self,
        url: str,
        batch_label: str,
        encode: Callable[[Sequence[I]], bytes] = lambda items: msgspec.json.encode(items[0]),
        *,
        headers: Mapping[str, str],
        secrets: Iterable[str] = (),
        progress: Progress = lambda label, done: None,
        read: Callable[[HttpAnswer], Refusal | None] = lambda answer: None,
        at_once: int = 1,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url
        self.label = batch_label
        self.taken = self.already_present = self.refused = 0
        """Number of items that the server accepted, that it had before, and that it refused."""
        self.reason = ""
        """Reason of the first refusal."""
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
            UserError: the server cannot be reached, needs another key or address, or accepts nothing at all.
        """
        waiting = iter(batches)
        try:
            while group := list(itertools.islice(waiting, self._at_once)):
                in_background(self._together(group))
        finally:
            in_background(self._client.close())
        if self.refused and not self.taken + self.already_present:
            raise self._delivery_error(self.reason)

    def words(self) -> str:
        """Return a phrase on the results of the delivery."""
        details = [f"{self.already_present:,} were there already"] if self.already_present else []
        details += [f"{self.refused:,} refused ({self.reason})"] if self.refused else []
        return f"{self.taken:,} {self.label} sent" + "".join(f", {text}" for text in details)

    async def _together(self, batches: Sequence[Sequence[I]]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for batch in batches:
                    group.create_task(self._batch(batch))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _batch(self, items: Sequence[I]) -> None:
        answer = await self._send_with_retries(self._encode(items))
        if answer.status < 300:
            refusal = self._read(answer)
            self._count(taken=len(items) - (refusal.count if refusal else 0), refusal=refusal)
        elif answer.status == 409:
            self._count(present=len(items))
        elif len(items) > 1:
            await self._batch(items[: len(items) // 2])
            await self._batch(items[len(items) // 2 :])
        else:
            self._count(refusal=Refusal(1, f"{answer.status}: {self._server_message(answer)}"))
            if self.refused >= _IN_A_ROW and not self.taken + self.already_present:
                raise self._delivery_error(self.reason)

    async def _send_with_retries(self, body: bytes) -> HttpAnswer:
        """Send a request until the answer concerns the items and not the server, and return the answer."""
        waits = iter(_WAITS)
        while True:
            answer, fault = await self._send_once(body)
            if answer is not None and (answer.status < 300 or answer.status in _ABOUT_ITEMS):
                return answer
            wait = next(waits, None)
            requested_wait = None
            if answer is not None:
                fault = f"{answer.status}: {self._server_message(answer)}"
                if answer.status in (401, 403):
                    raise self._delivery_error(f"{fault}. Is the key right, and may it write?")
                if answer.status not in _TRANSIENT:
                    raise self._delivery_error(f"{fault}. Is the address right?")
                if wait is None and answer.status == 500:
                    return answer  # perhaps one item is too much for it
                requested_wait = retry_after(answer.headers)
            if wait is None:
                raise self._delivery_error(f"{fault}, after {len(_WAITS) + 1} tries")
            await self._pause(wait if requested_wait is None else min(requested_wait, _LONGEST))

    async def _send_once(self, body: bytes) -> tuple[HttpAnswer | None, str]:
        import aiohttp

        try:
            return await self._client.send("POST", "", body), ""
        except TimeoutError:
            return None, "no complete answer in time"
        except aiohttp.InvalidURL as error:
            raise UserError(f"{self.url!r} is no address of a server.") from error
        except aiohttp.ClientConnectorError as error:
            if not self.taken + self.already_present + self.refused:
                raise self._delivery_error(
                    f"it cannot be reached{self._client.via} ({self._clean(root_cause(error))})"
                ) from error
            return None, "it cannot be reached any more"
        except BadReply as error:
            raise self._delivery_error(error.message) from error
        except (aiohttp.ClientError, OSError) as error:
            return None, f"the connection{self._client.via} was cut ({self._clean(root_cause(error))})"

    def _count(self, *, taken: int = 0, present: int = 0, refusal: Refusal | None = None) -> None:
        self.taken += taken
        self.already_present += present
        if refusal is not None and refusal.count:
            self.refused += refusal.count
            self.reason = self.reason or self._clean(refusal.reason)
        self._progress(self.label, self.taken + self.already_present + self.refused)

    def _server_message(self, answer: HttpAnswer) -> str:
        try:
            content = read_json(answer.body)
        except ValueError:
            content = answer.body.decode("utf-8", "replace")
        if isinstance(content, dict):
            content = next((content[key] for key in ("detail", "error", "message") if content.get(key)), content)
        return self._clean(str(content))

    def _clean(self, text: str) -> str:
        return safe(" ".join(self._redact(text).split()), 300)

    def _delivery_error(self, reason: str) -> UserError:
        progress_text = f"after {self.taken:,} of them" if self.taken else "at all"
        hint = " The same command goes on: nothing is doubled." if self.taken else ""
        return UserError(f"{self._clean(self.url)} did not take the {self.label} {progress_text}: {reason}.{hint}")
