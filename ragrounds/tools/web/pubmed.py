"""PubMed through NCBI's E-utilities: esearch for the ids, efetch for titles and abstracts.

Three requests a second, ten with NCBI_API_KEY, as NCBI asks.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import httpx
import msgspec
from msgspec.structs import asdict

from ragrounds.http import ENCODINGS, BadReply, check_json, read_json
from ragrounds.redaction import Redactor
from ragrounds.tools.web.providers import SECONDS, SearchFailed, answer_to

BASE = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
_TAGS = 200_000
"""Tags of an answer: some articles have a thousand."""


class PubMedArticle(msgspec.Struct, frozen=True, kw_only=True):
    """One article of PubMed."""

    pmid: str
    title: str
    abstract: str
    journal: str
    year: str


class _Ids(msgspec.Struct):
    idlist: list[str | int]


class _Found(msgspec.Struct):
    esearchresult: _Ids


class PubMed:
    """Searches PubMed."""

    spec = "pubmed"

    def __init__(self, *, transport: httpx.AsyncBaseTransport | None = None, base: str = BASE) -> None:
        self._key = os.environ.get("NCBI_API_KEY", "")
        self._pause = 0.1 if self._key else 0.34
        self._base = base
        self._redact = Redactor(self._key)
        self._client = httpx.AsyncClient(transport=transport, timeout=SECONDS, headers={"Accept-Encoding": ENCODINGS})
        self._one = asyncio.Lock()
        self._last = 0.0

    async def search(self, query: str, k: int) -> list[PubMedArticle]:
        """The `k` articles that PubMed holds most relevant, in its order.

        Raises:
            SearchFailed: no answer, or none that can be read.
        """
        found = await self._get(
            "esearch.fcgi", {"term": query, "retmax": str(k), "sort": "relevance", "retmode": "json"}
        )
        try:
            check_json(found)
            listed = msgspec.convert(read_json(found), _Found)
            ids = [str(one) for one in listed.esearchresult.idlist][:k]
        except (BadReply, ValueError):
            raise SearchFailed("PubMed answered with something that is not a list of articles") from None
        if not ids:
            return []
        got = await self._get("efetch.fcgi", {"id": ",".join(ids), "retmode": "xml"})
        articles = {one.pmid: one for one in await asyncio.to_thread(parsed, got)}
        wanted = [asdict(articles[one]) for one in ids if one in articles]
        return [PubMedArticle(**{name: self._redact(text) for name, text in one.items()}) for one in wanted]

    async def close(self) -> None:
        """Give back connections."""
        await self._client.aclose()

    async def _get(self, tool: str, parameters: dict[str, str]) -> bytes:
        asked = {"db": "pubmed", "tool": "ragrounds", **parameters} | ({"api_key": self._key} if self._key else {})
        async with self._one:
            await asyncio.sleep(max(0.0, self._last + self._pause - time.monotonic()))
            self._last = time.monotonic()
            request = self._client.build_request("POST", f"{self._base}/{tool}", data=asked)  # long queries fit no URL
            return await answer_to(self._client, request, "PubMed", self._redact)


def parsed(content: bytes) -> list[PubMedArticle]:
    """Articles of PubMed's XML.

    Raises:
        SearchFailed: it is no XML, or XML that plays tricks.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    if content.count(b"<") > _TAGS:
        raise SearchFailed(f"PubMed answered with XML of more than {_TAGS:,} tags")
    try:
        root = fromstring(content, forbid_dtd=False)
    except (ParseError, DefusedXmlException, RecursionError) as problem:
        raise SearchFailed(f"PubMed answered with XML that cannot be read ({problem})") from None
    return [_article(node) for node in root.iter("PubmedArticle")]


def _article(node: Any) -> PubMedArticle:
    def _text(path: str) -> str:
        found = node.find(path)
        return " ".join("".join(found.itertext()).split()) if found is not None else ""

    parts = []
    for part in node.iterfind(".//Abstract/AbstractText"):
        body = " ".join("".join(part.itertext()).split())
        label = part.get("Label")
        parts.append(f"{label}: {body}" if label else body)
    return PubMedArticle(
        pmid=_text(".//PMID"),
        title=_text(".//ArticleTitle"),
        abstract=" ".join(parts),
        journal=_text(".//Journal/Title"),
        year=_text(".//JournalIssue/PubDate/Year") or _text(".//JournalIssue/PubDate/MedlineDate")[:4],
    )
