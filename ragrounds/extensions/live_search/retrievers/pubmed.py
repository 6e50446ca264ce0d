"""PubMed as a corpus: ``pubmed``, or ``pubmed[match=any]``. Passages are titles and abstracts, of book chapters too;
their ids are PubMed's."""

from __future__ import annotations

from ragrounds.base.contracts import Searcher
from ragrounds.base.specs import Spec
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora


def _open(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    PUBMED.check(spec)
    # httpx takes longer to import than all retrievers together.
    from ragrounds.extensions.live_search.pubmed import PubMed

    return PubMed(spec)


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
