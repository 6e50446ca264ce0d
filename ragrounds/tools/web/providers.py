"""Search providers: SearXNG (self-hosted), Tavily, Brave, Serper.

``searxng[url="http://localhost:8888"]``, ``tavily``, ``brave``, ``serper``; keys come from TAVILY_API_KEY,
BRAVE_API_KEY and SERPER_API_KEY. The Bing API that several papers used was retired in August 2025: a web run of theirs
cannot be repeated with the same engine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import httpx
import msgspec
from msgspec.structs import asdict

from ragrounds.addresses import check_address, redirected
from ragrounds.errors import UserError, unknown
from ragrounds.http import ENCODINGS, REPLY, BadReply, check_json, read_json, read_parts
from ragrounds.redaction import Redactor
from ragrounds.specs import Spec, parse

SECONDS = 20.0
_MOST = 20
"""Results that the providers give at once."""


class WebHit(msgspec.Struct, frozen=True, kw_only=True):
    """One result."""

    title: str
    url: str
    snippet: str


class SearchFailed(Exception):
    """A search that gave no answer, with the reason; keys never stand in it."""


class SearchProvider:
    """One search provider."""

    def __init__(self, spec: Spec, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        if spec.name not in _PROVIDERS:
            raise unknown("search provider", spec.name, _PROVIDERS, "docs/retrieval.md")
        self._ask, variable = _PROVIDERS[spec.name]
        self._key = os.environ.get(variable, "") if variable else ""
        if variable and not self._key:
            raise UserError(f"The search provider {spec.name!r} needs the environment variable {variable}.")
        self._url = str(spec.parameters.get("url", ""))
        if spec.name == "searxng" and not self._url.startswith(("http://", "https://")):
            raise UserError('searxng needs its address: searxng[url="http://localhost:8888"].')
        check_address(self._url, "let the server on this machine ask for none")
        for key in spec.parameters:
            if key != "url" or spec.name != "searxng":
                raise UserError(f"The search provider {spec.name!r} has no parameter {key!r}.")
        self.spec = str(spec)
        self._redact = Redactor(self._key)
        self._client = httpx.AsyncClient(transport=transport, timeout=SECONDS, headers={"Accept-Encoding": ENCODINGS})

    async def search(self, query: str, k: int) -> list[WebHit]:
        """The first `k` results, without keys.

        Raises:
            SearchFailed: no answer, or none that can be read.
            StopRun: the provider redirects.
        """
        request = self._ask(self._client, self._url.rstrip("/"), self._key, query, min(k, _MOST))
        content = await answer_to(self._client, request, self.spec, self._redact)
        try:
            check_json(content)
            found = read_json(content)
        except (BadReply, ValueError):
            raise SearchFailed(f"{self.spec} answered with something that is not JSON") from None
        return [WebHit(**{name: self._redact(text) for name, text in asdict(hit).items()}) for hit in _hits(found)[:k]]

    async def close(self) -> None:
        """Give back connections."""
        await self._client.aclose()


async def answer_to(client: httpx.AsyncClient, request: httpx.Request, who: str, redact: Redactor) -> bytes:
    """The body of a provider's answer, within :data:`SECONDS` in all.

    Raises:
        SearchFailed: there is none, or it is too large.
        StopRun: the provider redirects.
    """
    try:
        async with asyncio.timeout(SECONDS):
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                if 300 <= response.status_code < 400:
                    place = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
                    raise redirected(place, response.status_code, response.headers.get("location", ""), redact)
                if response.status_code != 200:
                    raise SearchFailed(f"{who} answered {response.status_code}")
                encoding = response.headers.get("content-encoding", "")
                return await read_parts(response.aiter_raw(), encoding, REPLY.size)
            finally:
                await response.aclose()
    except (httpx.HTTPError, httpx.StreamError, TimeoutError) as problem:
        raise SearchFailed(f"{who} did not answer ({type(problem).__name__})") from None
    except BadReply as problem:
        raise SearchFailed(f"{who} answered with something that is not read: {problem.message}") from None


def provider(spec: str, *, transport: httpx.AsyncBaseTransport | None = None) -> SearchProvider:
    """The provider that a spec names.

    Raises:
        UserError: there is none, or its key or address is missing.
    """
    return SearchProvider(parse(spec), transport=transport)


def _hits(found: object) -> list[WebHit]:
    """Results, wherever a provider keeps them; those without an address are left out."""
    if not isinstance(found, dict):
        return []
    web = found.get("web")
    rows = found.get("results") or found.get("organic") or (web.get("results") if isinstance(web, dict) else None)
    hits = []
    for row in rows if isinstance(rows, list) else []:
        url = row.get("url") or row.get("link") if isinstance(row, dict) else None
        if isinstance(url, str):
            snippet = row.get("content") or row.get("snippet") or row.get("description") or ""
            hits.append(WebHit(title=str(row.get("title") or ""), url=url, snippet=str(snippet)))
    return hits


def _searxng(client: httpx.AsyncClient, url: str, key: str, query: str, k: int) -> httpx.Request:
    return client.build_request("GET", f"{url}/search", params={"q": query, "format": "json"})


def _tavily(client: httpx.AsyncClient, url: str, key: str, query: str, k: int) -> httpx.Request:
    headers = {"Authorization": f"Bearer {key}"}
    body = {"query": query, "max_results": k}
    return client.build_request("POST", "https://api.tavily.com/search", json=body, headers=headers)


def _brave(client: httpx.AsyncClient, url: str, key: str, query: str, k: int) -> httpx.Request:
    address = "https://api.search.brave.com/res/v1/web/search"
    headers = {"X-Subscription-Token": key, "Accept": "application/json"}
    return client.build_request("GET", address, params={"q": query[:400], "count": k}, headers=headers)


def _serper(client: httpx.AsyncClient, url: str, key: str, query: str, k: int) -> httpx.Request:
    body = {"q": query, "num": k}
    return client.build_request("POST", "https://google.serper.dev/search", json=body, headers={"X-API-KEY": key})


_Ask = Callable[[httpx.AsyncClient, str, str, str, int], httpx.Request]
_PROVIDERS: dict[str, tuple[_Ask, str]] = {
    "searxng": (_searxng, ""),
    "tavily": (_tavily, "TAVILY_API_KEY"),
    "brave": (_brave, "BRAVE_API_KEY"),
    "serper": (_serper, "SERPER_API_KEY"),
}
