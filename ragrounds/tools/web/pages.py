"""Fetches pages of the open web, and takes the text out of them.

Refused, unless allowed: addresses that are not public (this machine, private networks, a cloud's metadata service),
checked for every redirect and for the address that is really connected to; other schemes than http and https; types
that are not text or PDF; more bytes than the limit, packed or unpacked; what robots.txt forbids; more than
:data:`REDIRECTS` redirects. One request a host at a time, and not more often than :attr:`FetchLimits.pause`.

A page's text is its article without menus and scripts, or the part of it around a search result's snippet."""

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
    """How far a fetch may go."""

    seconds: float = 20.0
    """For the whole of one fetch."""
    size: int = 5_000_000
    """Bytes of a page, unpacked."""
    pause: float = 1.0
    """Seconds between two requests to one host."""
    private: bool = False
    """Whether addresses that are not public may be fetched."""
    robots: bool = True
    """Whether robots.txt is asked and obeyed."""


DEFAULT_LIMITS = FetchLimits()


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, as the journal keeps it."""

    url: str
    """Where it came from after redirects."""
    type: str
    charset: str
    content: bytes


class FetchFailed(Exception):
    """A page that could not be fetched, with the reason, which a tool answers with."""


class PublicOnly(httpx.AsyncBaseTransport):
    """Connects to the address that was checked: a name that changes between the check and the connection gains
    nothing. The server is still asked for, and its certificate checked against, the name in the URL."""

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
        """Close the transport behind it."""
        await self._transport.aclose()


async def public_address(host: str, port: int) -> str:
    """The address of a host, if all that it has are public.

    Raises:
        FetchFailed: it has none, or one that is not public.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as problem:
        raise FetchFailed(f"{host!r} has no address ({problem.strerror})") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    for address in addresses:
        if not is_public(address):
            raise FetchFailed(f"{host!r} is at {address}, which is not public")
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an address belongs to the open internet, also where an IPv4 address hides in an IPv6 one."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        hidden = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo[1] if parsed.teredo else None)
        if parsed in _NAT64:
            hidden = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if hidden is not None:
            return hidden.is_global and not hidden.is_multicast
        if parsed not in _UNICAST or parsed in _EXAMPLES:  # Python calls global what no registry has given out
            return False
    return parsed.is_global and not parsed.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that the internet routes (RFC 4291): not `64:ff9b:1::/48`, `::ffff:0:0:0/96`, `fec0::/10`."""
_EXAMPLES = ipaddress.IPv6Network("3fff::/20")
"""For documentation (RFC 9637)."""


class Fetcher:
    """Fetches pages within limits. Close it when done."""

    def __init__(
        self, limits: FetchLimits = DEFAULT_LIMITS, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._limits = limits
        self.spec = "web"
        self._client = httpx.AsyncClient(
            transport=PublicOnly(transport or httpx.AsyncHTTPTransport(), private=limits.private),
            follow_redirects=False,  # each step is checked anew
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
            FetchFailed: it cannot be had within the limits.
        """
        try:
            asked = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as problem:
            raise FetchFailed(f"{url!r} is no URL ({problem})") from None
        if asked.scheme not in ("http", "https") or not asked.host or asked.userinfo:
            raise FetchFailed(f"{url!r} is not fetched: expected http(s)://HOST/… without a password")
        try:
            async with asyncio.timeout(self._limits.seconds):
                for _ in range(REDIRECTS + 1):
                    if self._limits.robots and not await self._allowed(asked):
                        raise FetchFailed(f"the site's robots.txt does not allow {str(asked)!r}")
                    found = await self._get(asked, self._limits.size, TYPES)
                    if isinstance(found, Fetched):
                        return found
                    asked = found
                raise FetchFailed(f"{url!r} redirects more than {REDIRECTS} times")
        except TimeoutError:
            raise FetchFailed(f"{url!r} took longer than {self._limits.seconds:g} s") from None
        except httpx.HTTPError as problem:
            raise FetchFailed(f"{url!r} could not be fetched ({type(problem).__name__}: {problem})") from None

    async def close(self) -> None:
        """Give back connections."""
        await self._client.aclose()

    async def _get(self, url: httpx.URL, size: int, types: tuple[str, ...]) -> Fetched | httpx.URL:
        """What stands at a URL, or where it redirects to."""
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
        """Whether robots.txt allows a URL; a site without one allows everything."""
        origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
        if origin not in self._robots:
            parser = RobotFileParser()
            try:
                got = await self._get(httpx.URL(origin + "/robots.txt"), _ROBOTS_BYTES, ("text/plain",))
                lines = got.content.decode("utf-8", "replace").splitlines() if isinstance(got, Fetched) else []
                parser.parse(lines)
            except (FetchFailed, httpx.HTTPError):
                parser.parse([])
            self._robots[origin] = parser
        return self._robots[origin].can_fetch(AGENT, str(url))


def need_web() -> None:
    """Say what to install, where the web's libraries are not there.

    Raises:
        UserError: they are not.
    """

    if importlib.util.find_spec("trafilatura") is None:
        raise UserError("Reading web pages needs trafilatura: install ragrounds[web].")


AROUND = 3000
"""Characters before and after the sentence that fits a snippet best (Search-o1)."""
BEGINNING = 6000
"""Characters given where no sentence fits."""
FITS = 0.2
"""Word-overlap F1 above which a sentence fits."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]?")


class WebPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page as text."""

    url: str
    title: str
    text: str


def extract(fetched: Fetched) -> WebPage:
    """The text of what was fetched.

    Raises:
        FetchFailed: there is no text in it.
    """
    if fetched.type == "application/pdf":
        try:
            title, text = "", read_pdf(fetched.content)
        except DocumentFault as problem:
            raise FetchFailed(f"{fetched.url!r} is a PDF that cannot be read: {problem}") from None
    elif fetched.type in ("text/plain", "text/markdown"):
        title, text = "", _decoded(fetched)
    else:
        title, text = _html(fetched)
    if not text.strip():
        raise FetchFailed(f"{fetched.url!r} has no text")
    return WebPage(url=fetched.url, title=title, text=text)


def excerpt(text: str, snippet: str, around: int = AROUND, beginning: int = BEGINNING) -> str:
    """The part of a page around the sentence that fits a search result's snippet best, as Search-o1 cuts it; the
    beginning of the page, where none fits."""
    wanted = Counter(words(snippet))
    best, place = FITS, None
    for sentence in _SENTENCE.finditer(text):
        fit = _f1(Counter(words(sentence.group())), wanted)
        if fit > best:
            best, place = fit, sentence.span()
    if place is None:
        return text[:beginning]
    return text[max(0, place[0] - around) : place[1] + around]


def _f1(one: Counter[str], other: Counter[str]) -> float:
    common = (one & other).total()
    return 2 * common / (one.total() + other.total()) if common else 0.0


def _decoded(fetched: Fetched) -> str:
    return text_of(fetched.content, f"charset={fetched.charset}")


def _html(fetched: Fetched) -> tuple[str, str]:
    need_web()
    import trafilatura

    source = _decoded(fetched)
    text = trafilatura.extract(source, include_comments=False, favor_recall=True) or ""
    metadata = trafilatura.extract_metadata(source)
    return (metadata.title if metadata else None) or "", text
