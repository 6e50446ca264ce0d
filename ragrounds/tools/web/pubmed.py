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
from ragrounds.tools.web.any_words import match_of, matched
from ragrounds.tools.web.live_searcher import LiveHit, LiveSearcher
from ragrounds.tools.web.provider_budget import LIMITS, ProviderBudget, budget_of, effective, fitted
from ragrounds.tools.web.provider_client import ProviderClient, checked_json, own_address, xml_root

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

T = TypeVar("T")
BASE = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
KEY = "NCBI_API_KEY"
BUDGET = ProviderBudget(rate=3, length=4000, price=0.0)
_WITH_KEY = 10
"""Requests a second with a key."""
_TAGS = 200_000
"""Tags of an answer: some articles have a thousand."""


class _Ids(msgspec.Struct):
    idlist: list[str | int]


class _Found(msgspec.Struct):
    esearchresult: _Ids


class PubMed(LiveSearcher):
    """Searches PubMed: ``pubmed[match=auto,rate=3]``."""

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
        """The `k` articles, books and chapters that PubMed holds most relevant, in its order; one without an abstract
        has its title as text. A query of which nothing has all words is searched for by any of them, where `match` is
        ``auto``; that is noted on the search."""
        asked = fitted(query, self._client.budget, "pubmed")
        ids = await matched(asked, self._match, "pubmed", lambda text: self._ids(text, k))
        if not ids:
            return []
        found = {one.id: one for one in await self._get("efetch.fcgi", {"id": ",".join(ids), "retmode": "xml"}, parsed)}
        redact = self._client.redact
        kept = [found[one] for one in ids if one in found]
        return [LiveHit(redact(one.id), redact(one.title), redact(one.text or one.title)) for one in kept]

    async def _ids(self, text: str, k: int) -> list[str]:
        return (await self._get("esearch.fcgi", {"term": text, "retmax": str(k), "sort": "relevance"}, _listed))[:k]

    async def _get(self, tool: str, parameters: dict[str, str], read: Callable[[bytes], T]) -> T:
        form = {"esearch.fcgi": {"retmode": "json"}}.get(tool, {})
        asked = {"db": "pubmed", "tool": "ragrounds", **form, **parameters}

        def build(client: httpx.AsyncClient, url: str, key: str) -> httpx.Request:
            """A form in the body: long queries fit no address."""
            return client.build_request("POST", f"{url}/{tool}", data=asked | ({"api_key": key} if key else {}))

        return await self._client.fetch(build, read)


def _listed(body: bytes) -> list[str]:
    """The ids of esearch's answer."""
    found = checked_json(body)
    result = found.get("esearchresult") if isinstance(found, dict) else None
    if isinstance(result, dict) and (said := result.get("ERROR")):
        raise ValueError(str(said))
    try:
        return [str(one) for one in msgspec.convert(found, _Found).esearchresult.idlist]
    except msgspec.ValidationError:
        raise ValueError("it is not a list of articles") from None


def parsed(content: bytes) -> list[LiveHit]:
    """Articles, books and chapters of PubMed's XML, in its order.

    Raises:
        ValueError: it is no XML, or XML that plays tricks.
    """
    root = xml_root(content, _TAGS)
    return [_READERS[node.tag](node) for node in root.iter() if node.tag in _READERS]


def _article(node: Element) -> LiveHit:
    return LiveHit(_text(node, ".//PMID"), _text(node, ".//ArticleTitle"), _abstract(node))


def _book(node: Element) -> LiveHit:
    """A book, or a chapter of one: a chapter of GeneReviews or StatPearls has an ``ArticleTitle`` of its own."""
    return LiveHit(
        _text(node, "./BookDocument/PMID") or _text(node, ".//PMID"),
        _text(node, "./BookDocument/ArticleTitle") or _text(node, ".//Book/BookTitle"),
        _abstract(node),
    )


_READERS = {"PubmedArticle": _article, "PubmedBookArticle": _book}


def _abstract(node: Element) -> str:
    parts = []
    for part in node.iterfind(".//Abstract/AbstractText"):
        body = " ".join("".join(part.itertext()).split())
        label = part.get("Label")
        parts.append(f"{label}: {body}" if label else body)
    return " ".join(parts)


def _text(node: Element, path: str) -> str:
    found = node.find(path)
    return " ".join("".join(found.itertext()).split()) if found is not None else ""
