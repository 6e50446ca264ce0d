"""HTTP with servers that are not trusted: every reply of a model, an embedder or a provider is read here.

What comes is bounded before it is kept: bytes received, bytes after decompression (which is done here, in small
steps), values and lists in its JSON, and the seconds of the whole call. No redirect is followed: it would send
prompts and the key to an address that nobody named.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import re
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
from msgspec import Struct

from ragrounds.base.addresses import redirected
from ragrounds.base.redaction import Redactor
from ragrounds.base.text import safe
from ragrounds.recorder.unpacking import BadReply as BadReply
from ragrounds.recorder.unpacking import Unpacker
from ragrounds.recorder.unpacking import too_large as too_large
from ragrounds.recorder.wire import OWN_TRAFFIC
from ragrounds.version import __version__

if TYPE_CHECKING:  # it takes longer to import than all that stands here
    import aiohttp

T = TypeVar("T")
_TURN = 1 << 20
"""Bytes after which other tasks have their turn."""


@contextmanager
def own_traffic() -> Iterator[None]:
    """Mark what follows in this context as ours."""
    before = OWN_TRAFFIC.set(True)
    try:
        yield
    finally:
        OWN_TRAFFIC.reset(before)


class ReplyLimits(Struct, frozen=True, kw_only=True):
    """How large a reply may be."""

    size: int = 8 << 20
    """Bytes, as received and after decompression: some two million tokens of text."""
    values: int = 500_000
    """Values of its JSON."""
    lists: int = 100_000
    """Lists and objects of its JSON."""


REPLY = ReplyLimits()
PROBABILITIES = ReplyLimits(size=32 << 20, values=8_000_000, lists=1_000_000)
"""Of a reply with log probabilities that were asked for: 20 likeliest tokens beside each of some 8,000."""
STREAM = ReplyLimits(size=128 << 20)
"""A stream is read event by event, and what is kept of it has the limit of a reply."""


class HttpAnswer(Struct, frozen=True):
    """A whole HTTP answer. The names in `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Sink(Protocol):
    """Takes a stream of events as it arrives, in place of its body."""

    ends_in: float | None
    """Seconds in which the stream should close, once it has said all; ``None``: it goes on."""

    def feed(self, part: bytes) -> None:
        """Take the next part."""


ENCODINGS = "gzip, deflate"
"""What is asked for: what can be unpacked in bounded steps."""


async def read_parts(parts: AsyncIterable[bytes], encoding: str, size: int) -> bytes:
    """A body from its parts as they were received.

    Args:
        parts: The parts, still packed.
        encoding: The header ``Content-Encoding``.
        size: Bytes it may have, packed and unpacked.

    Raises:
        BadReply: it has more, or cannot be unpacked.
    """
    pieces: list[bytes] = []
    async for piece in read_pieces(parts, encoding, size):
        pieces.append(piece)
    return b"".join(pieces)


async def read_pieces(parts: AsyncIterable[bytes], encoding: str, size: int) -> AsyncIterator[bytes]:
    """The same body piece by piece, as it is unpacked."""
    unpacker, since = Unpacker(encoding, size), 0
    async for part in parts:
        for piece in unpacker.feed(part):
            yield piece
            since += len(piece)
            if since > _TURN:
                since = 0
                await asyncio.sleep(0)
    unpacker.finish()


def check_json(body: bytes, limits: ReplyLimits = REPLY) -> None:
    """Count what a JSON text can hold at most, before anything is made of it: a few bytes can be a large object.

    Raises:
        BadReply: more than the limits allow.
    """
    if len(body) < limits.lists:
        return
    lists = body.count(b"[") + body.count(b"{")
    if lists > limits.lists:
        raise BadReply("too_large", f"the reply has {lists:,} lists and objects: expected at most {limits.lists:,}")
    values = body.count(b",")
    if values > limits.values:
        raise BadReply("too_large", f"the reply has {values:,} values: expected at most {limits.values:,}")


def read_json(body: bytes | str) -> object:
    """A JSON text as plain values, also one that only the standard library reads: lone surrogates as escapes, NaN,
    control characters, damaged UTF-8.

    Raises:
        ValueError: it is none, or nested too deep.
    """
    try:
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            text = body if isinstance(body, str) else text_of(body, "")
            try:
                return json.loads(text, strict=False, parse_int=_integer)
            except ValueError:
                raise error from None
    except RecursionError:
        raise ValueError("lists within lists, too deep to read") from None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 40 else float("inf")


MOST_TOKENS = 10**9
"""Tokens of one reply beyond which a count is not believed."""


def believed_count(value: object) -> int | None:
    """A server's count of tokens; ``None``: it cannot be true."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST_TOKENS else None  # type: ignore[return-value,operator]


_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_CHARSETS = frozenset(
    "ascii us-ascii latin-1 latin1 iso-8859-1 iso-8859-15 windows-1252 cp1252 windows-1251 koi8-r utf-16 utf-16le "
    "utf-16be utf-16-le utf-16-be utf-32 gbk gb2312 gb18030 big5 shift_jis shift-jis euc-jp euc-kr".split()
)
"""Charsets that are believed. Python knows others that take long to read, or are none."""


def text_of(body: bytes, content_type: str) -> str:
    """A body as text: in the charset that it says, by its byte order mark, or else UTF-8; never an error."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    found = _CHARSET.search(content_type)
    name = found[1].lower() if found else ""
    return body.decode(name if name in _CHARSETS else "utf-8", "replace")


# The client


class HttpClient:
    """Connections to one server. `timeout` is the seconds that a whole answer may take."""

    def __init__(self, place: str, headers: Mapping[str, str], timeout: float, redact: Redactor) -> None:
        self.place = place.rstrip("/")
        self._headers = dict(headers)
        self._timeout = timeout
        self._redact = redact
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        limits: ReplyLimits = REPLY,
        sink: Sink | None = None,
    ) -> HttpAnswer:
        """Send a request and read the whole answer, whatever its status.

        Args:
            method: ``GET`` or ``POST``.
            path: What follows the place.
            body: What is sent.
            limits: How large the answer may be.
            sink: Takes a stream of events in place of the answer's body.

        Raises:
            StopRun: the server redirects.
            BadReply: the answer is too large or cannot be unpacked.
            TimeoutError: no complete answer in time.
            aiohttp.ClientError, OSError: the connection failed.
        """
        with own_traffic():
            # aiohttp's own limits are a silence between bytes; this one bounds the whole answer.
            async with (
                asyncio.timeout(self._timeout),
                self._opened().request(method, self.place + path, data=body, allow_redirects=False) as answer,
            ):
                headers = {name.lower(): value for name, value in answer.headers.items()}
                if 300 <= answer.status < 400:
                    raise redirected(self.place, answer.status, headers.get("location", ""), self._redact)
                parts, encoding = answer.content.iter_any(), headers.get("content-encoding", "")
                if (
                    sink is not None
                    and answer.status < 300
                    and "event-stream" in headers.get("content-type", "").lower()
                ):
                    await _pour(read_pieces(parts, encoding, STREAM.size), sink)
                    return HttpAnswer(answer.status, headers, b"")
                content = await read_parts(parts, encoding, limits.size)
                check_json(content, limits)
                return HttpAnswer(answer.status, headers, content)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                # How many calls are in flight is decided above, not here.
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout),
                headers={"User-Agent": f"ragrounds/{__version__}", **self._headers, "Accept-Encoding": ENCODINGS},
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                # aiohttp would look into the environment and into .netrc at every call.
                proxy=_proxy(self.place),
            )
        return self._session


async def _pour(pieces: AsyncIterator[bytes], sink: Sink) -> None:
    """Give a stream to its sink until it ends. One that has said all, and does not close, has a moment for it, so that
    its connection can be used again."""
    import aiohttp

    ends = float("inf")
    try:
        async with asyncio.timeout(None) as moment:
            async for piece in pieces:
                sink.feed(piece)
                if sink.ends_in is not None:
                    ends = min(ends, asyncio.get_running_loop().time() + sink.ends_in)
                    moment.reschedule(ends)
    except (TimeoutError, BadReply, aiohttp.ClientError, OSError):
        if sink.ends_in is None:
            raise


def _proxy(place: str) -> str | None:
    """The proxy that the environment names for this server (``HTTPS_PROXY``, ``NO_PROXY`` …)."""
    parts = urllib.parse.urlsplit(place)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


_QUOTED = re.compile(r":? b(['\"]).*$")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what led to it, each once: what is raised `from` itself, as gRPC's clients do, leads in a circle."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def root_cause(error: BaseException) -> str:
    """What the first of an error's causes says, on one line."""
    found = list(causes(error))
    said = next((str(cause) for cause in reversed(found) if str(cause)), type(found[-1]).__name__)
    # So aiohttp's parser begins for whatever is no HTTP, and it quotes some of the bytes: perhaps half a key.
    return safe(_QUOTED.sub("", " ".join(said.split()).removeprefix("400, message: ")))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: ``retry-after-ms``, or ``Retry-After`` as seconds or as a date; ``None``: it
    does not say. `headers` has names in lower case."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers.get("retry-after", "").strip()
        if given.replace(".", "", 1).isdigit():
            return float(given)
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time()) if given else None
    except (ValueError, TypeError, OverflowError):
        return None


# For code that is no coroutine


class _Background:
    """A thread with an event loop, for plain functions that send requests."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="ragrounds-http", daemon=True).start()


_background: list[_Background] = []
_starting = threading.Lock()


def in_background(work: Coroutine[object, object, T]) -> T:
    """Carry a coroutine out on a loop of its own, in another thread, and wait for its result."""
    with _starting:
        if not _background or _background[0].process != os.getpid():  # a forked process has no threads
            _background[:] = [_Background()]
    waiting = asyncio.run_coroutine_threadsafe(work, _background[0].loop)
    try:
        return waiting.result()
    except BaseException:
        waiting.cancel()
        raise


def close_in_background(client: HttpClient) -> None:
    """Close a client that was used by :func:`in_background`, wherever this is called."""
    if _background and _background[0].process == os.getpid():
        asyncio.run_coroutine_threadsafe(client.close(), _background[0].loop)
