"""Fetches pages of the open web, and extracts their text.

Refused, unless allowed: addresses that are not public (this machine, private networks, a cloud's metadata service),
checked for every redirect and for the address that is really connected to; other schemes than http and https; types
that are not text or PDF; more bytes than the limit, packed or unpacked; what robots.txt forbids; more than
:data:`REDIRECTS` redirects. One request a host at a time, and not more often than :attr:`FetchLimits.pause`.

A page's text is its article without menus and scripts, or the part of it around a search result's snippet.
"""

from __future__ import annotations

import asyncio
import importlib.util
import ipaddress
import re
import socket
import time
from collections import Counter, defaultdict
from urllib.robotparser import RobotFileParser

import httpx
import msgspec

from ragrounds.base.errors import UserError
from ragrounds.base.http import ENCODINGS, BadReply, read_parts, text_of
from ragrounds.tools.documents import read_pdf
from ragrounds.tools.documents.found import DocumentFault
from ragrounds.tools.index.analysers import words

AGENT = "ragrounds"
REDIRECTS = 5
TYPES = ("text/html", "application/xhtml+xml", "text/plain", "text/markdown", "application/pdf")
_ROBOTS_BYTES = 512_000


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a fetch."""

    seconds: float = 20.0
    """Seconds for the whole of a fetch."""
    size: int = 5_000_000
    """Bytes of a page, unpacked."""
    pause: float = 1.0
    """Seconds between two requests to one host."""
    private: bool = False
    """True if addresses that are not public may be fetched."""
    robots: bool = True
    """True if robots.txt is read and obeyed."""


DEFAULT_LIMITS = FetchLimits()


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, as the journal keeps it."""

    url: str
    """URL of the content, after redirects."""
    type: str
    charset: str
    content: bytes


class FetchFailed(Exception):
    """A page that could not be fetched, with the reason that a tool answers with."""


class PublicOnly(httpx.AsyncBaseTransport):
    """Transport that connects to the address that was checked.

    A name that changes between the check and the connection gains nothing. The request still names the host of the URL,
    and the certificate is checked against it.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, *, private: bool) -> None:
        self._transport = transport
        self._private = private

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the public address of its host.

        Raises:
            FetchFailed: the scheme is not http or https, or an address of the host is not public.
        """
        host = request.url.host
        if request.url.scheme not in ("http", "https"):
            raise FetchFailed(f"{request.url.scheme!r} is not fetched: expected http or https")
        if not self._private:
            address = await public_address(host, request.url.port or (443 if request.url.scheme == "https" else 80))
            request = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # with the name as Host
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._transport.aclose()


async def public_address(host: str, port: int) -> str:
    """Return the address of a host if all its addresses are public.

    Raises:
        FetchFailed: it has no address, or an address that is not public.
    """
    loop = asyncio.get_running_loop()
    try:
        entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as problem:
        raise FetchFailed(f"{host!r} has no address ({problem.strerror})") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in entries]
    for address in addresses:
        if not is_public(address):
            raise FetchFailed(f"{host!r} is at {address}, which is not public")
    return addresses[0]


def is_public(address: str) -> bool:
    """Return True if an address belongs to the open internet, also if an IPv4 address is inside an IPv6 address."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        hidden = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo[1] if parsed.teredo else None)
        if parsed in _NAT64:
            hidden = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if hidden is not None:
            return hidden.is_global and not hidden.is_multicast
        # Python also calls addresses global that no registry has assigned.
        if parsed not in _UNICAST or parsed in _EXAMPLES:
            return False
    return parsed.is_global and not parsed.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All addresses that the internet routes (RFC 4291): not `64:ff9b:1::/48`, `::ffff:0:0:0/96`, `fec0::/10`."""
_EXAMPLES = ipaddress.IPv6Network("3fff::/20")
"""Addresses for documentation (RFC 9637)."""


class Fetcher:
    """Fetcher of pages within limits. Close it when done."""

    def __init__(
        self, limits: FetchLimits = DEFAULT_LIMITS, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._limits = limits
        self.spec = "web"
        self._client = httpx.AsyncClient(
            transport=PublicOnly(transport or httpx.AsyncHTTPTransport(), private=limits.private),
            follow_redirects=False,  # each step is checked again
            timeout=limits.seconds,
            headers={"User-Agent": AGENT, "Accept": ", ".join(TYPES), "Accept-Encoding": ENCODINGS},
            trust_env=False,
        )
        self._hosts: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._last: dict[str, float] = {}
        self._robots: dict[str, RobotFileParser] = {}

    async def fetch(self, url: str) -> Fetched:
        """Fetch one page.

        Raises:
            FetchFailed: it cannot be fetched within the limits.
        """
        try:
            target = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as problem:
            raise FetchFailed(f"{url!r} is no URL ({problem})") from None
        if target.scheme not in ("http", "https") or not target.host or target.userinfo:
            raise FetchFailed(f"{url!r} is not fetched: expected http(s)://HOST/… without a password")
        try:
            async with asyncio.timeout(self._limits.seconds):
                for _ in range(REDIRECTS + 1):
                    if self._limits.robots and not await self._allowed(target):
                        raise FetchFailed(f"the site's robots.txt does not allow {str(target)!r}")
                    answer = await self._get(target, self._limits.size, TYPES)
                    if isinstance(answer, Fetched):
                        return answer
                    target = answer
                raise FetchFailed(f"{url!r} redirects more than {REDIRECTS} times")
        except TimeoutError:
            raise FetchFailed(f"{url!r} took longer than {self._limits.seconds:g} s") from None
        except httpx.HTTPError as problem:
            raise FetchFailed(f"{url!r} could not be fetched ({type(problem).__name__}: {problem})") from None

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _get(self, url: httpx.URL, size: int, types: tuple[str, ...]) -> Fetched | httpx.URL:
        """Return the content of a URL, or the URL that it redirects to."""
        async with self._hosts[url.host]:
            wait = self._last.get(url.host, -1e9) + self._limits.pause - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            try:
                async with self._client.stream("GET", url) as response:
                    if response.next_request is not None:
                        return response.next_request.url
                    if response.status_code != 200:
                        raise FetchFailed(f"{str(url)!r} answered {response.status_code}")
                    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                    if kind not in types:
                        raise FetchFailed(f"{str(url)!r} is {kind or 'of no type'}: expected {', '.join(types)}")
                    encoding = response.headers.get("content-encoding", "")
                    content = await read_parts(response.aiter_raw(), encoding, size)
                    charset = response.charset_encoding or "utf-8"
                    return Fetched(url=str(url), type=kind, charset=charset, content=content)
            except BadReply as problem:
                if problem.kind == "too_large":
                    raise FetchFailed(f"{str(url)!r} has more than {size:,} bytes") from None
                raise FetchFailed(f"{str(url)!r} cannot be read: {problem.message}") from None
            finally:
                self._last[url.host] = time.monotonic()

    async def _allowed(self, url: httpx.URL) -> bool:
        """Return True if robots.txt allows a URL. A site without one allows everything."""
        origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
        if origin not in self._robots:
            parser = RobotFileParser()
            try:
                answer = await self._get(httpx.URL(origin + "/robots.txt"), _ROBOTS_BYTES, ("text/plain",))
                lines = answer.content.decode("utf-8", "replace").splitlines() if isinstance(answer, Fetched) else []
                parser.parse(lines)
            except (FetchFailed, httpx.HTTPError):
                parser.parse([])
            self._robots[origin] = parser
        return self._robots[origin].can_fetch(AGENT, str(url))


def need_web() -> None:
    """Check that the web's libraries are installed.

    Raises:
        UserError: they are not. The message says what to install.
    """

    if importlib.util.find_spec("trafilatura") is None:
        raise UserError("Reading web pages needs trafilatura: install ragrounds[web].")


AROUND = 3000
"""Number of characters before and after the sentence that fits a snippet best (Search-o1)."""
BEGINNING = 6000
"""Number of characters that are returned if no sentence fits."""
FITS = 0.2
"""Word-overlap F1 above which a sentence fits."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]?")


class WebPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page as text."""

    url: str
    title: str
    text: str


def extract(fetched: Fetched) -> WebPage:
    """Extract the text of a fetched page.

    Raises:
        FetchFailed: it contains no text.
    """
    if fetched.type == "application/pdf":
        try:
            title, text = "", read_pdf(fetched.content)
        except DocumentFault as problem:
            raise FetchFailed(f"{fetched.url!r} is a PDF that cannot be read: {problem}") from None
    elif fetched.type in ("text/plain", "text/markdown"):
        title, text = "", _decode_page(fetched)
    else:
        title, text = _html(fetched)
    if not text.strip():
        raise FetchFailed(f"{fetched.url!r} has no text")
    return WebPage(url=fetched.url, title=title, text=text)


def excerpt(text: str, snippet: str, around: int = AROUND, beginning: int = BEGINNING) -> str:
    """Return the part of a page around the sentence that fits a search result's snippet best, as Search-o1 cuts it.

    If no sentence fits, the beginning of the page is returned.
    """
    snippet_words = Counter(words(snippet))
    best, span = FITS, None
    for sentence in _SENTENCE.finditer(text):
        sentence_words = Counter(words(sentence.group()))
        # The F1 of the overlap of two bags of words.
        common = (sentence_words & snippet_words).total()
        fit = 2 * common / (sentence_words.total() + snippet_words.total()) if common else 0.0
        if fit > best:
            best, span = fit, sentence.span()
    if span is None:
        return text[:beginning]
    return text[max(0, span[0] - around) : span[1] + around]


def _decode_page(fetched: Fetched) -> str:
    return text_of(fetched.content, f"charset={fetched.charset}")


def _html(fetched: Fetched) -> tuple[str, str]:
    """Return the title and the main text of an HTML page."""
    need_web()
    import trafilatura

    source = _decode_page(fetched)
    text = trafilatura.extract(source, include_comments=False, favor_recall=True) or ""
    metadata = trafilatura.extract_metadata(source)
    return (metadata.title if metadata else None) or "", text
