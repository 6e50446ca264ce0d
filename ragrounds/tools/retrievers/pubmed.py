"""PubMed as a corpus: ``pubmed``, or ``pubmed[match=any]``. Passages are titles and abstracts, of book chapters too;
their ids are PubMed's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragrounds.specs import Spec
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora
from ragrounds.tools.web.live_searcher import LiveHit, LiveSearcher

if TYPE_CHECKING:  # httpx takes longer to import than all retrievers together
    from ragrounds.tools.web.pubmed import PubMed


class PubMedSearcher(LiveSearcher):
    """Searches PubMed; see :class:`ragrounds.contracts.Searcher`."""

    def __init__(self, spec: Spec, *, pubmed: PubMed | None = None) -> None:
        PUBMED.check(spec)
        from ragrounds.tools.web.pubmed import PubMed

        self._pubmed = pubmed or PubMed(spec)
        super().__init__(self._pubmed.spec, "pubmed")

    async def hits(self, query: str, k: int) -> list[LiveHit]:
        """Articles, books and chapters; one without an abstract has its title as text."""
        found = await self._pubmed.search(query, k)
        return [LiveHit(one.pmid, one.title, one.abstract or one.title) for one in found]


def _open(spec: Spec, corpora: SearchedCorpora) -> PubMedSearcher:
    return PubMedSearcher(spec)


PUBMED = Retriever(
    name="pubmed",
    summary="PubMed, live: titles and abstracts of articles and book chapters",
    example="pubmed[match=auto]",
    open=_open,
    parameters=(
        RetrieverParameter(
            "match", "all: every word of the query; any: any of them; auto: any where nothing has all", "auto"
        ),
        RetrieverParameter("rate", "requests a second: 3, with NCBI_API_KEY 10"),
        RetrieverParameter("length", "characters of a query", 4000),
        RetrieverParameter("words", "words of a query"),
        RetrieverParameter("wait", "seconds that PubMed is waited for", 300),
        RetrieverParameter("price", "dollars a request", 0),
        RetrieverParameter("url", "another address of the E-utilities"),
        RetrieverParameter("key_env", "the environment variable of the key there", "NCBI_API_KEY"),
    ),
    cost="two requests",
    extra="web",
    library="httpx",
    own_corpus=True,
)
