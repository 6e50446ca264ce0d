"""PubMed through NCBI's E-utilities: esearch for ids, efetch for titles and abstracts of articles and book chapters.

Three requests a second, ten with NCBI_API_KEY, as NCBI asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import httpx
import msgspec
from msgspec.structs import replace

from ragrounds.base.specs import Spec, check_known
from ragrounds.extensions.live_search.any_words import match_of, matched
from ragrounds.extensions.live_search.live_searcher import LiveHit, LiveSearcher
from ragrounds.extensions.live_search.provider_budget import LIMITS, ProviderBudget, budget_of, effective, fitted
from ragrounds.extensions.live_search.provider_client import ProviderClient, checked_json, own_address, xml_root

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

T = TypeVar("T")
BASE = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
KEY = "NCBI_API_KEY"
BUDGET = ProviderBudget(rate=3, length=4000, price=0.0)
_WITH_KEY = 10
"""Requests a second with a key."""
_TAGS = 200_000
"""Number of tags of an answer. Some articles have a thousand."""


class _Ids(msgspec.Struct):
    idlist: list[str | int]


class _SearchResponse(msgspec.Struct):
    esearchresult: _Ids


class PubMed(LiveSearcher):
    """Searcher of PubMed: ``pubmed[match=auto,rate=3]``."""

    def __init__(self, spec: Spec, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        check_known(spec, ("match", "url", "key_env", *LIMITS))
        url, variable = own_address(spec, BASE, KEY)
        rate = _WITH_KEY if os.environ.get(variable) else BUDGET.rate
        super().__init__(str(effective(spec)), "pubmed")
        self._match = match_of(spec)
        self._client = ProviderClient(
            "pubmed", url, budget_of(spec, replace(BUDGET, rate=rate)), variable=variable, transport=transport
        )

    async def hits(self, query: str, k: int) -> list[LiveHit]:
        """Return the `k` articles, books and chapters that PubMed ranks most relevant, in its order.

        An entry without an abstract has its title as text. If nothing has all words of a query and `match` is ``auto``,
        any of the words are searched for, and a note on the search reports it.
        """
        query_text = fitted(query, self._client.budget, "pubmed")

        async def search(text: str) -> list[str]:
            fields = {"term": text, "retmax": str(k), "sort": "relevance"}
            return (await self._get("esearch.fcgi", fields, _listed))[:k]

        ids = await matched(query_text, self._match, "pubmed", search)
        if not ids:
            return []
        articles_by_id = {
            article.id: article
            for article in await self._get("efetch.fcgi", {"id": ",".join(ids), "retmode": "xml"}, parsed)
        }
        redact = self._client.redact
        articles = [articles_by_id[identity] for identity in ids if identity in articles_by_id]
        return [
            LiveHit(redact(article.id), redact(article.title), redact(article.text or article.title))
            for article in articles
        ]

    async def _get(self, tool: str, parameters: dict[str, str], read: Callable[[bytes], T]) -> T:
        """Request one of the E-utilities, and read its answer."""
        form = {"esearch.fcgi": {"retmode": "json"}}.get(tool, {})
        fields = {"db": "pubmed", "tool": "ragrounds", **form, **parameters}

        def build(client: httpx.AsyncClient, url: str, key: str) -> httpx.Request:
            """Build a POST request with the fields in the body, since long queries do not fit into an address."""
            return client.build_request("POST", f"{url}/{tool}", data=fields | ({"api_key": key} if key else {}))

        return await self._client.fetch(build, read)


def _listed(body: bytes) -> list[str]:
    """Return the ids of esearch's answer."""
    answer = checked_json(body)
    search_result = answer.get("esearchresult") if isinstance(answer, dict) else None
    if isinstance(search_result, dict) and (error := search_result.get("ERROR")):
        raise ValueError(str(error))
    try:
        return [str(identity) for identity in msgspec.convert(answer, _SearchResponse).esearchresult.idlist]
    except msgspec.ValidationError:
        raise ValueError("it is not a list of articles") from None


def parsed(content: bytes) -> list[LiveHit]:
    """Parse the articles, books and chapters of PubMed's XML, in its order.

    Raises:
        ValueError: it is not XML, or XML with unsafe features.
    """
    root = xml_root(content, _TAGS)
    return [_READERS[node.tag](node) for node in root.iter() if node.tag in _READERS]


def _book(node: Element) -> LiveHit:
    """Read a book, or a chapter of a book.

    A chapter of GeneReviews or StatPearls has an ``ArticleTitle`` of its own.
    """
    return LiveHit(
        _text(node, "./BookDocument/PMID") or _text(node, ".//PMID"),
        _text(node, "./BookDocument/ArticleTitle") or _text(node, ".//Book/BookTitle"),
        _abstract(node),
    )


_READERS: dict[str, Callable[[Element], LiveHit]] = {
    "PubmedArticle": lambda node: LiveHit(_text(node, ".//PMID"), _text(node, ".//ArticleTitle"), _abstract(node)),
    "PubmedBookArticle": _book,
}


def _abstract(node: Element) -> str:
    """Return an abstract's parts with their labels as one text."""
    parts = []
    for part in node.iterfind(".//Abstract/AbstractText"):
        body = " ".join("".join(part.itertext()).split())
        label = part.get("Label")
        parts.append(f"{label}: {body}" if label else body)
    return " ".join(parts)


def _text(node: Element, path: str) -> str:
    """Return the text of the first element at a path; empty if it is missing."""
    element = node.find(path)
    return " ".join("".join(element.itertext()).split()) if element is not None else ""
