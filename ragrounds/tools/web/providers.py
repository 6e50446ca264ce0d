"""Search providers: SearXNG (self-hosted), Tavily, Brave, Serper.

``searxng[url="http://localhost:8888"]``, ``tavily``, ``brave``, ``serper``; keys come from TAVILY_API_KEY,
BRAVE_API_KEY and SERPER_API_KEY. The Bing API that several papers used was retired in August 2025: a web run of theirs
cannot be repeated with the same engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from ragrounds.errors import UserError, unknown
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
        for key in spec.parameters:
            if key != "url" or spec.name != "searxng":
                raise UserError(f"The search provider {spec.name!r} has no parameter {key!r}.")
        self.spec = str(spec)
        self._client = httpx.AsyncClient(transport=transport, timeout=SECONDS, follow_redirects=False)

    async def search(self, query: str, k: int) -> list[WebHit]:
        """The first `k` results.

        Raises:
            SearchFailed: no answer, or none that can be read.
        """
        request = self._ask(self._client, self._url.rstrip("/"), self._key, query, min(k, _MOST))
        try:
            response = await self._client.send(request)
        except httpx.HTTPError as problem:
            raise SearchFailed(f"{self.spec} did not answer ({type(problem).__name__})") from None
        if response.status_code != 200:
            raise SearchFailed(f"{self.spec} answered {response.status_code}")
        try:
            found = response.json()
        except (ValueError, RecursionError):
            raise SearchFailed(f"{self.spec} answered with something that is not JSON") from None
        return _hits(found)[:k]

    async def close(self) -> None:
        """Give back connections."""
        await self._client.aclose()


def provider(spec: str, *, transport: httpx.AsyncBaseTransport | None = None) -> SearchProvider:
    """The provider that a spec names.

    Raises:
        UserError: there is none, or its key or address is missing.
    """
    return SearchProvider(parse(spec), transport=transport)


def _hits(found: Any) -> list[WebHit]:
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
