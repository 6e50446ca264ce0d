"""Europe PMC: abstracts of PubMed, of preprints, patents and books, and open articles whole, by its REST service."""

from __future__ import annotations

import asyncio
import html
import re

import httpx
import msgspec

from ragrounds.contracts import SearchNote
from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.tools.search_notes import SEARCH_NOTES
from ragrounds.tools.web.any_words import match_of, matched
from ragrounds.tools.web.pages import excerpt
from ragrounds.tools.web.provider_budget import (
    LIMITS,
    ProviderBudget,
    SearchFailed,
    SearchRefused,
    budget_of,
    check_parameters,
    effective,
    fitted,
)
from ragrounds.tools.web.provider_client import ProviderClient, checked_json, own_address, xml_root

BASE = "https://www.ebi.ac.uk/europepmc/webservices/rest"
BUDGET = ProviderBudget(rate=10, length=1500, price=0.0)
_MOST = 1000
"""Results of one page."""
_TAGS = 400_000
"""Tags of an article's XML: some have a hundred thousand."""
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")


class EuropePmcArticle(msgspec.Struct, frozen=True, kw_only=True):
    """One record of Europe PMC."""

    id: str
    """PubMed's id where it has one, else its source and its id there: ``PPR:PPR123``."""
    title: str
    abstract: str
    journal: str
    year: str
    pmcid: str = ""
    """Under which its whole text is open; empty: it is not."""


class EuropePmc:
    """Searches Europe PMC: ``europe_pmc[fulltext=true,match=auto]``."""

    def __init__(
        self, spec: Spec | None = None, *, transport: httpx.AsyncBaseTransport | None = None, base: str = BASE
    ) -> None:
        spec = spec or Spec("europe_pmc")
        check_parameters(spec, ("match", "fulltext", "url", *LIMITS))
        whole = spec.parameters.get("fulltext", False)
        if not isinstance(whole, bool):
            raise UserError(f"Cannot use fulltext={whole!r} in {spec.name}: expected true or false.")
        self.spec = str(effective(spec))
        self._match, self._whole = match_of(spec), whole
        url, _ = own_address(spec, base, "")
        self._client = ProviderClient("europe_pmc", url, budget_of(spec, BUDGET), transport=transport)

    async def search(self, query: str, k: int) -> list[EuropePmcArticle]:
        """The `k` records that Europe PMC holds most relevant, in its order; as PubMed's
        (:meth:`ragrounds.tools.web.pubmed.PubMed.search`) by any word, where nothing has all.

        Raises:
            SearchRefused: Europe PMC does not take the query.
            SearchFailed: no answer, or none that can be read.
            StopRun: Europe PMC is not there.
        """
        asked = fitted(query, self._client.budget, "europe_pmc")
        return list(await matched(asked, self._match, "europe_pmc", lambda text: self._found(text, k)))

    async def texts(self, articles: list[EuropePmcArticle], query: str) -> list[str]:
        """What is shown of some records: the abstract; with ``fulltext=true``, of an open article, the part of its text
        that fits the query best behind it. Texts that cannot be had are counted in a note."""
        if not self._whole:
            return [one.abstract for one in articles]
        bodies = await asyncio.gather(*(self._body(one.pmcid) for one in articles))
        missing = sum(body is None for body in bodies)
        if missing:
            text = f"europe_pmc: the open text of {missing} of {len(articles)} could not be had, their abstracts stand"
            SEARCH_NOTES.report(SearchNote("text_missing", text))
        return [
            "\n\n".join(part for part in (one.abstract, excerpt(body or "", query)) if part)
            for one, body in zip(articles, bodies, strict=True)
        ]

    async def close(self) -> None:
        """Give back connections."""
        await self._client.close()

    async def _found(self, text: str, k: int) -> list[EuropePmcArticle]:
        asked = {"query": text, "resultType": "core", "format": "json", "pageSize": str(min(k, _MOST))}
        found = await self._client.fetch(
            lambda client, url, key: client.build_request("POST", f"{url}/searchPOST", data=asked), checked_json
        )
        if not isinstance(found, dict) or "resultList" not in found:
            said = str(found.get("errMsg", "")) if isinstance(found, dict) else ""
            said = self._client.redact(" ".join(said.split())[:300])
            raise SearchRefused(f"europe_pmc answered without results{f': {said}' if said else ''}", "bad_request")
        listed = found["resultList"]
        rows = listed.get("result") if isinstance(listed, dict) else None
        read = [self._read(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        return [one for one in read if one.id][:k]

    def _read(self, row: dict[str, object]) -> EuropePmcArticle:
        redact = self._client.redact

        def _plain(value: object) -> str:
            text = str(value) if isinstance(value, str | int) else ""
            return redact(" ".join(html.unescape(_TAG.sub(" ", text)).split()))

        source, number = _plain(row.get("source")), _plain(row.get("id"))
        open_text = row.get("isOpenAccess") == "Y" and row.get("inEPMC", "Y") == "Y"
        return EuropePmcArticle(
            id=_plain(row.get("pmid")) or (f"{source}:{number}" if source and number else number),
            title=_plain(row.get("title")),
            abstract=_plain(row.get("abstractText")),
            journal=_plain(_inside(row, "journalInfo", "journal", "title"))
            or _plain(_inside(row, "bookOrReportDetails", "comprisingTitle"))
            or _plain(_inside(row, "bookOrReportDetails", "publisher")),
            year=_plain(row.get("pubYear")),
            pmcid=_plain(row.get("pmcid")) if open_text else "",
        )

    async def _body(self, pmcid: str) -> str | None:
        """The text of an open article; empty: it is not open; ``None``: it could not be had."""
        if not re.fullmatch(r"PMC\d{1,12}", pmcid):
            return ""
        try:
            return await self._client.fetch(
                lambda client, url, key: client.build_request("GET", f"{url}/{pmcid}/fullTextXML"), article_text
            )
        except SearchFailed:
            return None


def _inside(row: object, *names: str) -> object:
    for name in names:
        row = row.get(name) if isinstance(row, dict) else None
    return row


def article_text(content: bytes) -> str:
    """The paragraphs of an article's body (JATS XML), each under the titles of its sections; without references.

    Raises:
        ValueError: it is no XML, or XML that plays tricks.
    """
    root = xml_root(content, _TAGS)
    body = root.find(".//body")
    parts = body.iter() if body is not None else ()
    texts = [" ".join("".join(part.itertext()).split()) for part in parts if part.tag in ("title", "p")]
    return "\n".join(text for text in texts if text)
