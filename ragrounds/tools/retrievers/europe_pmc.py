"""Europe PMC as a corpus: ``europe_pmc``, or ``europe_pmc[fulltext=true]``. Passages are abstracts, of preprints too;
ids are PubMed's where a record has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragrounds.specs import Spec
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora
from ragrounds.tools.web.live_searcher import LiveHit, LiveSearcher

if TYPE_CHECKING:  # httpx takes longer to import than all retrievers together
    from ragrounds.tools.web.europe_pmc import EuropePmc


class EuropePmcSearcher(LiveSearcher):
    """Searches Europe PMC; see :class:`ragrounds.contracts.Searcher`."""

    def __init__(self, spec: Spec, *, europe_pmc: EuropePmc | None = None) -> None:
        EUROPE_PMC.check(spec)
        from ragrounds.tools.web.europe_pmc import EuropePmc

        self._service = europe_pmc or EuropePmc(spec)
        super().__init__(self._service.spec, "europe_pmc")

    async def hits(self, query: str, k: int) -> list[LiveHit]:
        """Records; one without an abstract has its title as text."""
        found = await self._service.search(query, k)
        texts = await self._service.texts(found, query)
        return [LiveHit(one.id, one.title, text or one.title) for one, text in zip(found, texts, strict=True)]


def _open(spec: Spec, corpora: SearchedCorpora) -> EuropePmcSearcher:
    return EuropePmcSearcher(spec)


EUROPE_PMC = Retriever(
    name="europe_pmc",
    summary="Europe PMC, live: abstracts, preprints too, and open articles whole",
    example="europe_pmc[fulltext=true]",
    open=_open,
    parameters=(
        RetrieverParameter("fulltext", "of an open article also the part of its text that fits the query", False),
        RetrieverParameter(
            "match", "all: every word of the query; any: any of them; auto: any where nothing has all", "auto"
        ),
        RetrieverParameter("rate", "requests a second", 10),
        RetrieverParameter("length", "characters of a query", 1500),
        RetrieverParameter("words", "words of a query"),
        RetrieverParameter("wait", "seconds that Europe PMC is waited for", 300),
        RetrieverParameter("price", "dollars a request", 0),
        RetrieverParameter("url", "another address of the service"),
    ),
    cost="a request, and one for each open article",
    extra="web",
    library="httpx",
    own_corpus=True,
)
