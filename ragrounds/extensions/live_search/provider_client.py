"""Requests to search providers over HTTP: within their budget, bounded, without redirects.

Failures are classified by their consequence for the searches that follow.
"""

from __future__ import annotations

import asyncio
import os
import re
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

import httpx

from ragrounds.base.addresses import check_address, redirected
from ragrounds.base.contracts import Used
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.http import (
    ENCODINGS,
    REPLY,
    BadReply,
    check_json,
    is_transient_status,
    own_traffic,
    read_json,
    read_parts,
)
from ragrounds.base.proxies import proxy_of, proxy_words
from ragrounds.base.specs import Spec
from ragrounds.base.text import safe
from ragrounds.extensions.live_search.provider_budget import (
    PassingFault,
    ProviderBudget,
    ProviderTraffic,
    SearchRefused,
    requested_wait,
    traffic_to,
)
from ragrounds.recorder.redaction import Redactor
from ragrounds.tools.search_notes import SEARCH_REQUESTS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

T = TypeVar("T")
SECONDS = 20.0
"""Seconds for a request and its answer."""
_MESSAGE_LENGTH = 300
"""Number of characters of a provider's message in an error."""
_FIRST_REFUSED = 50
"""Number of first queries without any answer after which the queries are not the reason."""
_NEVER = frozenset({401, 402, 407, 432, 433})
"""Statuses after which every further search would end alike: the key is wrong, or the plan is used up (Tavily's 432 and
433).
"""
_NEVER_AT_FIRST = frozenset({403, 404, 405})
"""Statuses with the same meaning, unless other queries were answered. Then only this query is refused."""
_USED_UP = re.compile(
    r"(?:not enough|insufficient) (?:credit|quota|balance)|quota (?:is |was )?exceeded", re.IGNORECASE
)
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})

Build = Callable[[httpx.AsyncClient, str, str], httpx.Request]
"""Function that makes a request from the client, the address and the key."""


class ProviderClient:
    """Address of a provider, with its key and its budget.

    Args:
        name: name of the provider in specs.
        url: its address, without a slash at the end.
        budget: limits of the provider.
        variable: environment variable of its key; empty if it takes none. It is read at the first request, so that a
            replay, which makes none, needs no key.
        needed: True if it answers nothing without a key.
        transport: replacement of the network, for tests.
    """

    def __init__(
        self,
        name: str,
        url: str,
        budget: ProviderBudget,
        *,
        variable: str = "",
        needed: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.name, self.url, self.budget = name, url, budget
        self._variable, self._needed, self._transport = variable, needed, transport
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()
        self._refused = 0

    @property
    def key(self) -> str:
        """Return its key; empty if the key is not set or not needed."""
        return os.environ.get(self._variable, "").strip() if self._variable else ""

    @property
    def redact(self) -> Redactor:
        """Return a function that removes its key from texts."""
        return Redactor(self.key)

    async def fetch(self, build: Build, read: Callable[[bytes], T]) -> T:
        """Return the result of `read` for the answer to a request.

        The request is made in its turn, and again after a fault that may pass. `read` raises a ValueError or a BadReply
        for an answer of another form.

        Raises:
            SearchRefused: the provider does not take this query.
            SearchFailed: no answer after all tries.
            StopRun: every further search would end alike.
        """
        if self._needed and not self.key:
            raise StopRun(f"The search provider {self.name!r} needs the environment variable {self._variable}.")
        traffic = traffic_to(f"{self.name} {self.url}", self.name)
        try:
            answer = await traffic.ask(lambda: self._try_once(build, read, traffic), self.budget)
        except SearchRefused as refused:
            self._refused += 1
            if not traffic.answered and self._refused >= _FIRST_REFUSED:
                raise StopRun(
                    f"{self.name} has refused each of the first {self._refused} queries, so it is not the queries. "
                    f"The last time: {refused}."
                ) from None
            raise
        SEARCH_REQUESTS.report(Used(f"search:{self.name}", None, hosted=True, requests=1, each=self.budget.price))
        return answer

    async def _try_once(self, build: Build, read: Callable[[bytes], T], traffic: ProviderTraffic) -> T:
        """Make one request and read its answer. Faults are raised by their consequence."""
        loop, proxy = asyncio.get_running_loop(), proxy_of(self.url) if self._transport is None else None
        if loop not in self._clients:
            self._clients[loop] = httpx.AsyncClient(
                transport=self._transport,
                timeout=SECONDS,
                headers={"Accept-Encoding": ENCODINGS},
                trust_env=False,
                proxy=proxy,
            )
        client = self._clients[loop]
        request = build(client, self.url, self.key)
        try:
            with own_traffic():
                async with asyncio.timeout(SECONDS):
                    return read(await self._answer(client, request, traffic))
        except (httpx.ConnectError, httpx.ConnectTimeout) as problem:
            raise PassingFault(
                "connection", f"{self.name} did not answer{proxy_words(proxy)} ({type(problem).__name__})"
            ) from None
        except (httpx.HTTPError, httpx.StreamError, TimeoutError) as problem:
            raise PassingFault("server", f"{self.name} did not answer ({type(problem).__name__})") from None
        except BadReply as problem:
            message = f"{self.name} answered with something that is not read: {problem.message}"
            if problem.kind == "too_large":  # a repeated request would be too large again
                raise SearchRefused(message, problem.kind) from None
            raise PassingFault("malformed", message) from None
        except (ValueError, RecursionError) as problem:
            message = f"{self.name} answered with something that cannot be read ({problem})"
            raise PassingFault("malformed", self.redact(safe(message, _MESSAGE_LENGTH))) from None

    async def _answer(self, client: httpx.AsyncClient, request: httpx.Request, traffic: ProviderTraffic) -> bytes:
        """Send a request and return the answer's body. Redirects are refused."""
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            status = response.status_code
            if 300 <= status < 400:
                address = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
                raise redirected(address, status, response.headers.get("location", ""), self.redact)
            body = await read_parts(response.aiter_raw(), response.headers.get("content-encoding", ""), REPLY.size)
            if status != 200:
                headers = {name.lower(): value for name, value in response.headers.items()}
                try:
                    words = _message(read_json(body[:65_536]))
                except ValueError:
                    words = ""
                # On one line and without keys.
                message = self.redact(safe(" ".join(words.split()), _MESSAGE_LENGTH)).rstrip(".")
                self._raise_for_status(status, message, headers, traffic)
            return body
        finally:
            await response.aclose()

    def _raise_for_status(self, status: int, message: str, headers: dict[str, str], traffic: ProviderTraffic) -> None:
        """Raise the error of a status."""
        text = f"{self.name} answered {status}{f': {message}' if message else ''}"
        if status == 429:
            raise PassingFault("rate_limit", text, requested_wait(headers))
        if is_transient_status(status):
            raise PassingFault("server", text, requested_wait(headers))
        if status in _NEVER or (status in _NEVER_AT_FIRST and not traffic.answered) or _USED_UP.search(message):
            raise StopRun(f"{text}. {self._fix_hint(status)} What is done is kept.")
        raise SearchRefused(text, "bad_request")

    def _fix_hint(self, status: int) -> str:
        """Return advice after a status that ends every search."""
        if self.name == "searxng":
            return "Check its address, and that `search.formats` in its settings has json."
        if status in (402, 432, 433):
            return "Its plan is used up: see your account there."
        return f"Check {self._variable}." if self._variable else "Check its address."


def xml_root(content: bytes, tags: int) -> Element:
    """Return the root of an answer's XML with at most so many `tags`.

    Raises:
        ValueError: it is not XML, has more tags, or uses unsafe features.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    if content.count(b"<") > tags:
        raise ValueError(f"XML of more than {tags:,} tags")
    try:
        root: Element = fromstring(content, forbid_dtd=False)
    except (ParseError, DefusedXmlException, RecursionError) as problem:
        raise ValueError(f"XML that cannot be read: {problem}") from None
    return root


def checked_json(body: bytes) -> object:
    """Return a provider's JSON as plain values, of bounded size.

    Raises:
        BadReply: it may exceed the limits of a reply.
        ValueError: it is not JSON.
    """
    check_json(body)
    try:
        return read_json(body)
    except ValueError:
        raise ValueError("it is not JSON") from None


def _message(content: object, depth: int = 4) -> str:
    """Return the message in an error's JSON, in any field that a provider uses."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict) and depth:
        for name in ("detail", "error", "message", "title", "type"):
            if name in content and (message := _message(content[name], depth - 1)):
                return message
    return ""


def own_address(spec: Spec, default: str, variable: str) -> tuple[str, str]:
    """Return the address and the key's variable of a spec: ``tavily[url="http://…",key_env=NAME]``.

    A key goes to its provider's own address, or to this machine. For any other address the spec names the key.

    Raises:
        UserError: the address is invalid, holds a key, or differs from the provider's and names no key.
    """
    url, key_variable = str(spec.parameters.get("url", "") or default), str(spec.parameters.get("key_env", ""))
    if not url.startswith(("http://", "https://")):
        raise UserError(f'{spec.name} needs its address: {spec.name}[url="http://localhost:8888"].')
    check_address(url, "let the server on this machine ask for none")
    host = urllib.parse.urlsplit(url).hostname
    if variable and not key_variable and url != default and host not in _HERE:
        raise UserError(
            f"{spec.name}[url={url!r}] is not the provider's own address: say in which environment variable its key "
            f"is, {spec.name}[url=…,key_env={variable}]."
        )
    return url.rstrip("/"), key_variable or variable
