"""The web as a corpus: ``web[provider=tavily]``, or ``web[provider=searxng[url="http://…"],pages=true]``.

With ``pages=true`` each result's page is fetched, and the passage is the part of it around the snippet (Search-o1); a
page that cannot be fetched leaves the snippet. The corpus is called ``web@live``: it has no version, a run over it is
repeated from the journal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec
from ragrounds.extensions.live_search.live_searcher import LiveHit, LiveSearcher
from ragrounds.tools.retriever import Retriever, RetrieverParameter

if TYPE_CHECKING:  # httpx takes longer to import than all retrievers together
    from ragrounds.extensions.live_search.providers import SearchProvider
    from ragrounds.tools.web_pages import Fetcher


class WebSearcher(LiveSearcher):
    """Searcher of the web; see :class:`ragrounds.base.contracts.Searcher`."""

    def __init__(self, spec: Spec, *, provider: SearchProvider | None = None, fetcher: Fetcher | None = None) -> None:
        parameters = WEB.values_in(spec)
        requested, pages = parameters["provider"], parameters["pages"]
        if not isinstance(requested, str | Spec):
            raise UserError("web needs a search provider: web[provider=tavily], brave, serper or searxng[url=…].")
        from ragrounds.extensions.live_search.provider_budget import effective
        from ragrounds.extensions.live_search.providers import SearchProvider
        from ragrounds.tools.web_pages import Fetcher

        provider_spec = requested if isinstance(requested, Spec) else Spec(requested)
        self._provider = provider or SearchProvider(provider_spec)
        self._fetcher = fetcher or (Fetcher() if pages else None)
        effective_spec = effective(provider_spec)
        super().__init__(
            str(spec.having(provider=effective_spec if effective_spec.parameters else effective_spec.name)), "web"
        )

    async def hits(self, query: str, k: int) -> list[LiveHit]:
        """Return the provider's results, with their snippets, or with the parts of their pages around the snippets."""
        results = await self._provider.search(query, k)
        texts = await asyncio.gather(*(self._text(hit) for hit in results))
        return [LiveHit(hit.id, hit.title, text, hit.score) for hit, text in zip(results, texts, strict=True)]

    async def _text(self, hit: LiveHit) -> str:
        if self._fetcher is None:
            return hit.text
        from ragrounds.tools.web_pages import FetchFailed, excerpt, extract

        try:
            page = extract(await self._fetcher.fetch(hit.id))
        except FetchFailed:
            return hit.text
        return excerpt(page.text, hit.text)


WEB = Retriever(
    name="web",
    summary="the web as a corpus, by a search provider",
    example="web[provider=tavily,pages=true]",
    open=lambda spec, corpora: WebSearcher(spec),
    parameters=(
        RetrieverParameter(
            "provider", "tavily, brave, serper, or searxng[url=…]; each takes rate, length, words, wait"
        ),
        RetrieverParameter("pages", "fetch the pages in place of the snippets", False),
    ),
    cost="a request to the provider, and one for each page",
    extra="web",
    library="httpx",
    own_corpus=True,
)
