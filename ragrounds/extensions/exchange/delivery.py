"""Delivery to a server that takes traces: in batches, with retries, and without stopping at a refused item.

A batch that the server refuses is halved until the refused item is alone; it is counted, with the reason. Items have
fixed ids, so sending them again after a broken connection creates no duplicates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.http import BadReply, HttpAnswer, HttpClient, in_background, read_json, retry_after, root_cause
from ragrounds.base.text import safe
from ragrounds.extensions.exchange.formats import Progress
from ragrounds.recorder.redaction import Redactor

_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between tries, if the server does not state any."""
_LONGEST = 60.0
"""Largest number of seconds that a server may request to wait."""
_IN_A_ROW = 100
"""Number of refused items, with none accepted, after which the cause is the server or the export, not a single item."""
_ABOUT_ITEMS = (400, 413, 422)
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)


class Refusal(Struct, frozen=True):
    """Refusal by a server of items in a batch that it accepted: their number, and the reason."""

    count: int
    reason: str


class Delivery:
    """Delivery of spans to one address, with counts of the results.

    Args:
        url: address that spans are posted to.
        encode: function that makes the body of a request from some spans.
        headers: headers of every request.
        secrets: texts that are removed from the server's messages.
        progress: called with the number of sent spans.
        refusal_in: function that returns the refusal in the answer to an accepted request, if any.
    """

    def __init__(
        self,
        url: str,
        encode: Callable[[Sequence[Any]], bytes],
        *,
        headers: Mapping[str, str],
        secrets: Iterable[str],
        progress: Progress,
        refusal_in: Callable[[HttpAnswer], Refusal | None],
    ) -> None:
        self.url = url
        self.taken = self.refused = 0
        """Number of spans that the server accepted, and that it refused."""
        self.reason = ""
        """Reason of the first refusal."""
        self._encode = encode
        self._redact = Redactor(*secrets)
        self._client = HttpClient(url, headers, 120.0, self._redact)
        self._progress = progress
        self._refusal_in = refusal_in

    def deliver(self, batches: Iterable[Sequence[Any]]) -> None:
        """Send some batches.

        Raises:
            UserError: the server cannot be reached, needs another key or address, or accepts nothing at all.
        """
        try:
            for batch in batches:
                in_background(self._batch(batch))
        finally:
            in_background(self._client.close())
        if self.refused and not self.taken:
            raise self._delivery_error(self.reason)

    def words(self) -> str:
        """Return a phrase on the results of the delivery."""
        refused = f", {self.refused:,} refused ({self.reason})" if self.refused else ""
        return f"{self.taken:,} spans sent{refused}"

    async def _batch(self, items: Sequence[Any]) -> None:
        answer = await self._send_with_retries(self._encode(items))
        if answer.status < 300:
            refusal = self._refusal_in(answer)
            self._count(len(items) - (refusal.count if refusal else 0), refusal)
        elif len(items) > 1:
            await self._batch(items[: len(items) // 2])
            await self._batch(items[len(items) // 2 :])
        else:
            self._count(0, Refusal(1, f"{answer.status}: {self._server_message(answer)}"))
            if self.refused >= _IN_A_ROW and not self.taken:
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
            await asyncio.sleep(wait if requested_wait is None else min(requested_wait, _LONGEST))

    async def _send_once(self, body: bytes) -> tuple[HttpAnswer | None, str]:
        import aiohttp

        try:
            return await self._client.send("POST", "", body), ""
        except TimeoutError:
            return None, "no complete answer in time"
        except aiohttp.InvalidURL as error:
            raise UserError(f"{self.url!r} is no address of a server.") from error
        except aiohttp.ClientConnectorError as error:
            if not self.taken + self.refused:
                raise self._delivery_error(
                    f"it cannot be reached{self._client.via} ({self._clean(root_cause(error))})"
                ) from error
            return None, "it cannot be reached any more"
        except BadReply as error:
            raise self._delivery_error(error.message) from error
        except (aiohttp.ClientError, OSError) as error:
            return None, f"the connection{self._client.via} was cut ({self._clean(root_cause(error))})"

    def _count(self, taken: int, refusal: Refusal | None) -> None:
        self.taken += taken
        if refusal is not None:
            self.refused += refusal.count
            self.reason = self.reason or self._clean(refusal.reason)
        self._progress("spans", self.taken + self.refused)

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
        return UserError(f"{self._clean(self.url)} did not take the spans {progress_text}: {reason}.{hint}")
