"""Search providers: SearXNG (self-hosted), Tavily, Brave, Serper.

``searxng[url="http://localhost:8888"]``, ``tavily``, ``brave``, ``serper``; keys come from TAVILY_API_KEY,
BRAVE_API_KEY and SERPER_API_KEY. The Bing API that several papers used was retired in August 2025: a web run of theirs
cannot be repeated with the same engine.

The limits of each (:mod:`ragrounds.extensions.live_search.provider_budget`) are those of its own pages in November
2026, and can be changed: ``tavily[rate=1.5,length=300]``.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from ragrounds.base.errors import unknown
from ragrounds.base.specs import Spec, check_known, parse
from ragrounds.extensions.live_search.live_searcher import LiveHit
from ragrounds.extensions.live_search.provider_budget import (
    LIMITS,
    ProviderBudget,
    budget_of,
    fitted,
)
from ragrounds.extensions.live_search.provider_client import ProviderClient, checked_json, own_address

_MOST = 20
"""Number of results that the providers return at once."""
_LONG_QUERY = 2000
"""Bytes of a query in an address beyond which it is sent in the body. Servers take addresses of 4 to 8 kB."""


class SearchProvider:
    """A search provider."""

    def __init__(self, given_spec: Spec | str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        spec = parse(given_spec) if isinstance(given_spec, str) else given_spec
        if spec.name not in _PROVIDERS:
            raise unknown("search provider", spec.name, _PROVIDERS, "docs/reference/retrieval.md")
        form = _PROVIDERS[spec.name]
        check_known(spec, ("url", *(["key_env"] if form.variable else []), *LIMITS))
        url, variable = own_address(spec, form.url, form.variable)
        self._ask = form.ask
        self._client = ProviderClient(
            spec.name,
            url,
            budget_of(spec, form.budget),
            variable=variable,
            needed=bool(form.variable),
            transport=transport,
        )

    async def search(self, query: str, k: int) -> list[LiveHit]:
        """Return the first `k` results, without keys.

        A query longer than the provider takes is cut, and the cut is noted on the search
        (:data:`~ragrounds.tools.search_notes.SEARCH_NOTES`).

        Raises:
            SearchRefused: the provider does not take this query.
            SearchFailed: no readable answer.
            StopRun: every further search would end alike: a wrong key, a plan that is used up, no response.
        """
        query_text = fitted(query, self._client.budget, self._client.name)
        answer = await self._client.fetch(
            lambda client, url, key: self._ask(client, url, key, query_text, min(k, _MOST)), checked_json
        )
        redact = self._client.redact
        return [LiveHit(redact(hit.id), redact(hit.title), redact(hit.text), hit.score) for hit in _hits(answer)[:k]]


def _hits(answer: object) -> list[LiveHit]:
    """Return the results from any field that a provider uses. Results without an address are left out."""
    if not isinstance(answer, dict):
        return []
    web = answer.get("web")
    rows = answer.get("results") or answer.get("organic") or (web.get("results") if isinstance(web, dict) else None)
    hits = []
    for row in rows if isinstance(rows, list) else []:
        url = row.get("url") or row.get("link") if isinstance(row, dict) else None
        if isinstance(url, str):
            snippet = row.get("content") or row.get("snippet") or row.get("description") or ""
            score = row.get("score")
            is_number = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < float("inf")
            hits.append(LiveHit(url, str(row.get("title") or ""), str(snippet), float(score) if is_number else None))
    return hits


def _searxng(client: httpx.AsyncClient, url: str, key: str, query: str, k: int) -> httpx.Request:
    parameters = {"q": query, "format": "json"}
    if len(urllib.parse.quote(query)) > _LONG_QUERY:
        return client.build_request("POST", f"{url}/search", data=parameters)
    return client.build_request("GET", f"{url}/search", params=parameters)


_Ask = Callable[[httpx.AsyncClient, str, str, str, int], httpx.Request]


@dataclass(frozen=True)
class _ProviderForm:
    """Request function and limits of a provider."""

    ask: _Ask
    url: str
    variable: str
    budget: ProviderBudget


_PROVIDERS: dict[str, _ProviderForm] = {
    # It passes queries on to engines whose limits it does not know, and charges nothing.
    "searxng": _ProviderForm(_searxng, "", "", ProviderBudget(rate=5, length=2000, price=0.0)),
    # 100 requests a minute for a key of development, 1,000 for one of production; a basic search is one credit.
    "tavily": _ProviderForm(
        lambda client, url, key, query, k: client.build_request(
            "POST",
            f"{url}/search",
            json={"query": query, "max_results": k},
            headers={"Authorization": f"Bearer {key}"},
        ),
        "https://api.tavily.com",
        "TAVILY_API_KEY",
        ProviderBudget(rate=100 / 60, length=400, price=0.008),
    ),
    "brave": _ProviderForm(
        lambda client, url, key, query, k: client.build_request(
            "GET",
            f"{url}/res/v1/web/search",
            params={"q": query, "count": k},
            headers={"X-Subscription-Token": key, "Accept": "application/json"},
        ),
        "https://api.search.brave.com",
        "BRAVE_API_KEY",
        ProviderBudget(rate=1, length=400, words=50, price=0.005),
    ),
    # Google looks at 2,048 characters, and at the first 32 words of them.
    "serper": _ProviderForm(
        lambda client, url, key, query, k: client.build_request(
            "POST", f"{url}/search", json={"q": query, "num": k}, headers={"X-API-KEY": key}
        ),
        "https://google.serper.dev",
        "SERPER_API_KEY",
        ProviderBudget(rate=5, length=2048, words=32, price=0.001),
    ),
}
