"""HTTP requests to servers that are not trusted. All replies of models, embedders and providers are read here.

Every reply is bounded before it is stored: bytes received, bytes after decompression (done here, in small steps),
values and lists in its JSON, and the seconds of the whole call. Redirects are not followed, because they would send
prompts and the key to an address that the user did not choose.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import re
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
from msgspec import Struct

from ragrounds.base.addresses import redirected
from ragrounds.base.proxies import proxy_of, proxy_words
from ragrounds.base.text import safe
from ragrounds.recorder.redaction import Redactor
from ragrounds.recorder.unpacking import BadReply as BadReply
from ragrounds.recorder.unpacking import Unpacker
from ragrounds.recorder.unpacking import too_large as too_large
from ragrounds.recorder.wire import OWN_TRAFFIC
from ragrounds.version import __version__

if TYPE_CHECKING:  # aiohttp takes longer to import than this whole module
    import aiohttp

T = TypeVar("T")
_BYTES_PER_TURN = 1 << 20
"""Number of bytes after which other tasks get a turn."""


@contextmanager
def own_traffic() -> Iterator[None]:
    """Mark the requests of this context as ragrounds' own."""
    token = OWN_TRAFFIC.set(True)
    try:
        yield
    finally:
        OWN_TRAFFIC.reset(token)


class ReplyLimits(Struct, frozen=True, kw_only=True):
    """Size limits of a reply."""

    size: int = 8 << 20
    """Bytes, as received and after decompression. The default is about two million tokens of text."""
    values: int = 500_000
    """Number of values in its JSON."""
    lists: int = 100_000
    """Number of lists and objects in its JSON."""


REPLY = ReplyLimits()
PROBABILITIES = ReplyLimits(size=32 << 20, values=8_000_000, lists=1_000_000)
"""Limits for a reply with requested log probabilities: the 20 most likely tokens at each of about 8,000 positions."""
STREAM = ReplyLimits(size=128 << 20)
"""Limits for a stream. It is read event by event, and the part that is stored has the limit of a reply."""


class HttpAnswer(Struct, frozen=True):
    """A complete HTTP response. The names in `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Sink(Protocol):
    """Consumer of an event stream that arrives instead of a response body."""

    ends_in: float | None
    """Seconds within which the stream should close after its last event. ``None`` while the stream continues."""

    def feed(self, part: bytes) -> None:
        """Take the next part."""


ENCODINGS = "gzip, deflate"
"""Requested content encodings. Only these can be decompressed in bounded steps."""


async def read_parts(parts: AsyncIterable[bytes], encoding: str, size: int) -> bytes:
    """Return a body from its parts as they were received.

    Args:
        parts: The parts, still compressed.
        encoding: The header ``Content-Encoding``.
        size: Maximum number of bytes, both compressed and decompressed.

    Raises:
        BadReply: the body is larger, or cannot be decompressed.
    """
    pieces: list[bytes] = []
    async for piece in read_pieces(parts, encoding, size):
        pieces.append(piece)
    return b"".join(pieces)


async def read_pieces(parts: AsyncIterable[bytes], encoding: str, size: int) -> AsyncIterator[bytes]:
    """Yield the same body piece by piece while it is decompressed."""
    unpacker, bytes_since_turn = Unpacker(encoding, size), 0
    async for part in parts:
        for piece in unpacker.feed(part):
            yield piece
            bytes_since_turn += len(piece)
            if bytes_since_turn > _BYTES_PER_TURN:
                bytes_since_turn = 0
                await asyncio.sleep(0)
    unpacker.finish()


def check_json(body: bytes, limits: ReplyLimits = REPLY) -> None:
    """Check an upper bound of the values in a JSON text before it is parsed: a few bytes can become a large object.

    Raises:
        BadReply: the text may contain more than the limits allow.
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
    """Parse a JSON text into plain values.

    Texts that only the standard library accepts are parsed too: lone surrogates as escapes, NaN, control characters,
    damaged UTF-8.

    Raises:
        ValueError: the text is not JSON, or nested too deeply.
    """
    try:
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            text = body if isinstance(body, str) else text_of(body, "")
            try:
                return json.loads(
                    text, strict=False, parse_int=lambda digits: int(digits) if len(digits) < 40 else float("inf")
                )
            except ValueError:
                raise error from None
    except RecursionError:
        raise ValueError("lists within lists, too deep to read") from None


MOST_TOKENS = 10**9
"""Largest credible number of tokens of one reply."""


def believed_count(value: object) -> int | None:
    """Return a server's count of tokens, or ``None`` if it cannot be true."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and 0 <= value <= MOST_TOKENS else None  # type: ignore[return-value,operator]


_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_CHARSETS = frozenset(
    "ascii us-ascii latin-1 latin1 iso-8859-1 iso-8859-15 windows-1252 cp1252 windows-1251 koi8-r utf-16 utf-16le "
    "utf-16be utf-16-le utf-16-be utf-32 gbk gb2312 gb18030 big5 shift_jis shift-jis euc-jp euc-kr".split()
)
"""Accepted charsets. Python supports others that are slow to decode or are not charsets of text."""


def text_of(body: bytes, content_type: str) -> str:
    """Decode a body by its byte order mark, by the charset of its content type, or else as UTF-8. Never raises an
    error.
    """
    for byte_order_mark, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if body.startswith(byte_order_mark):
            return body[len(byte_order_mark) :].decode(name, "replace")
    match = _CHARSET.search(content_type)
    name = match[1].lower() if match else ""
    return body.decode(name if name in _CHARSETS else "utf-8", "replace")


# The client


class HttpClient:
    """Connections to one server. `timeout` is the maximum number of seconds of a whole answer."""

    def __init__(self, base_url: str, headers: Mapping[str, str], timeout: float, redact: Redactor) -> None:
        self.base_url = base_url.rstrip("/")
        self.proxy = proxy_of(base_url)
        """URL of the proxy that the environment sets for this server; ``None`` if there is none."""
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
            path: Path that is appended to the server's base URL.
            body: Request body.
            limits: Size limits of the answer.
            sink: Consumer of an event stream, which then replaces the answer's body.

        Raises:
            StopRun: the server redirects.
            BadReply: the answer is too large or cannot be decompressed.
            TimeoutError: no complete answer in time.
            aiohttp.ClientError, OSError: the connection failed.
        """
        with own_traffic():
            # aiohttp's own timeouts limit the pause between bytes; this one limits the whole answer.
            async with (
                asyncio.timeout(self._timeout),
                self._open_session().request(method, self.base_url + path, data=body, allow_redirects=False) as answer,
            ):
                headers = {name.lower(): value for name, value in answer.headers.items()}
                if 300 <= answer.status < 400:
                    raise redirected(self.base_url, answer.status, headers.get("location", ""), self._redact)
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

    @property
    def via(self) -> str:
        """Return the part of an error that names the proxy; empty without one."""
        return proxy_words(self.proxy)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open_session(self) -> aiohttp.ClientSession:
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                # The caller limits the number of calls in flight.
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout),
                headers={"User-Agent": f"ragrounds/{__version__}", **self._headers, "Accept-Encoding": ENCODINGS},
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                # Set here, because aiohttp would read the environment and .netrc at every call.
                proxy=self.proxy,
            )
        return self._session


async def _pour(pieces: AsyncIterator[bytes], sink: Sink) -> None:
    """Feed a stream to its sink until it ends.

    A stream that sent its last event without closing gets a moment to close, so that its connection can be used again.
    """
    import aiohttp

    closing_time = float("inf")
    try:
        async with asyncio.timeout(None) as deadline:
            async for piece in pieces:
                sink.feed(piece)
                if sink.ends_in is not None:
                    closing_time = min(closing_time, asyncio.get_running_loop().time() + sink.ends_in)
                    deadline.reschedule(closing_time)
    except (TimeoutError, BadReply, aiohttp.ClientError, OSError):
        if sink.ends_in is None:
            raise


_QUOTED = re.compile(r":? b(['\"]).*$")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, each once. An error raised `from` itself, as gRPC's clients do, forms a cycle."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def root_cause(error: BaseException) -> str:
    """Return the message of the deepest cause of an error, on one line."""
    chain = list(causes(error))
    message = next((str(cause) for cause in reversed(chain) if str(cause)), type(chain[-1]).__name__)
    # aiohttp's parser begins its message so for anything but HTTP. It quotes some of the bytes: perhaps half a key.
    return safe(_QUOTED.sub("", " ".join(message.split()).removeprefix("400, message: ")))


def is_transient_status(status: int) -> bool:
    """Return True if another try may succeed after this HTTP status: 408, 409, 425, 429 or 5xx."""
    return status in (408, 409, 425, 429) or status >= 500


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, or ``None`` if it does not say.

    Read from ``retry-after-ms``, or ``Retry-After`` as seconds or as a date. `headers` has names in lower case.
    """
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        header = headers.get("retry-after", "").strip()
        if header.replace(".", "", 1).isdigit():
            return float(header)
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time()) if header else None
    except (ValueError, TypeError, OverflowError):
        return None


# For synchronous code


class _Background:
    """A thread with an event loop, for synchronous functions that send requests."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="ragrounds-http", daemon=True).start()


_background: list[_Background] = []
_starting = threading.Lock()


def in_background(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine on the event loop of a background thread, and wait for its result."""
    with _starting:
        if not _background or _background[0].process != os.getpid():  # a forked process has no threads
            _background[:] = [_Background()]
    future = asyncio.run_coroutine_threadsafe(work, _background[0].loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def close_in_background(client: HttpClient) -> None:
    """Close a client that was used by :func:`in_background`. Any thread may call this."""
    if _background and _background[0].process == os.getpid():
        asyncio.run_coroutine_threadsafe(client.close(), _background[0].loop)
