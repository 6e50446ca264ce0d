"""The web as a corpus: ``web[provider=tavily]``, or ``web[provider=searxng[url="http://…"],pages=true]``.

With ``pages=true`` each result's page is fetched, and the passage is the part of it around the snippet (Search-o1); a
page that cannot be had leaves the snippet. The corpus is called ``web@live``: it has no version, a run over it is
repeated from the journal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ragrounds.errors import GaveUp, UserError
from ragrounds.records import Passage
from ragrounds.specs import Spec
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora

if TYPE_CHECKING:  # httpx takes longer to import than all retrievers together
    from ragrounds.tools.web.pages import Fetcher
    from ragrounds.tools.web.providers import SearchProvider, WebHit

TRIES = 3
PAUSE = 1.0
"""Seconds before the second try; twice as long before the third."""


class WebSearcher:
    """Searches the web; see :class:`ragrounds.contracts.Searcher`."""

    def __init__(self, spec: Spec, *, provider: SearchProvider | None = None, fetcher: Fetcher | None = None) -> None:
        WEB.check(spec)
        chosen = spec.parameters.get("provider")
        if not isinstance(chosen, str | Spec):
            raise UserError("web needs a search provider: web[provider=tavily], brave, serper or searxng[url=…].")
        pages = spec.parameters.get("pages", False)
        if not isinstance(pages, bool):
            raise UserError(f"Cannot use pages={pages!r}: expected true or false.")
        from ragrounds.tools.web.pages import Fetcher
        from ragrounds.tools.web.providers import SearchProvider

        self._provider = provider or SearchProvider(chosen if isinstance(chosen, Spec) else Spec(chosen))
        self._fetcher = fetcher or (Fetcher() if pages else None)
        self.spec = str(spec)
        self.corpus = "web@live"

    async def search(self, query: str, k: int) -> list[Passage]:
        """The first `k` results, with 1 / rank as the score.

        Raises:
            GaveUp: the provider gives no answer, also when asked again.
        """
        if not query.strip():
            return []
        hits = await self._hits(query, k)
        texts = await asyncio.gather(*(self._text(hit) for hit in hits))
        return [
            Passage(
                id=hit.url,
                document=hit.url,
                title=hit.title,
                text=text,
                corpus=self.corpus,
                score=1 / rank,
                rank=rank,
                retriever=self.spec,
            )
            for rank, (hit, text) in enumerate(zip(hits, texts, strict=True), 1)
        ]

    async def _hits(self, query: str, k: int) -> list[WebHit]:
        from ragrounds.tools.web.providers import SearchFailed

        for number in range(TRIES):
            try:
                return await self._provider.search(query, k)
            except SearchFailed as problem:
                if number == TRIES - 1:
                    raise GaveUp(
                        "search", f"Web search failed {TRIES} times: {problem}. The query was {query[:200]!r}."
                    ) from None
                await asyncio.sleep(PAUSE * 2**number)
        return []

    async def _text(self, hit: WebHit) -> str:
        if self._fetcher is None:
            return hit.snippet
        from ragrounds.tools.web.pages import FetchFailed, excerpt, extract

        try:
            page = extract(await self._fetcher.fetch(hit.url))
        except FetchFailed:
            return hit.snippet
        return excerpt(page.text, hit.snippet)


def _open(spec: Spec, corpora: SearchedCorpora) -> WebSearcher:
    return WebSearcher(spec)


WEB = Retriever(
    name="web",
    summary="the web as a corpus, by a search provider",
    example="web[provider=tavily,pages=true]",
    open=_open,
    parameters=(
        RetrieverParameter("provider", "tavily, brave, serper, or searxng[url=…]"),
        RetrieverParameter("pages", "fetch the pages in place of the snippets", False),
    ),
    cost="a request to the provider, and one for each page",
    extra="web",
    library="httpx",
    own_corpus=True,
)
