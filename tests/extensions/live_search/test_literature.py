"""PubMed as a retriever, over HTTP on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse
from ragrounds.extensions.live_search.any_words import content_words
from ragrounds.extensions.live_search.pubmed import parsed
from ragrounds.tools.retriever import needs_corpus, open_searcher
from ragrounds.tools.search_notes import SEARCH_NOTES
from tests.servers.process import Running, running

LONG = "A 4-year-old boy is brought to the clinic with a barking cough. " * 4


@pytest.fixture(scope="module")
def providers() -> Iterator[Running]:
    with running("web_searches") as server:
        yield server


def opened(name: str, providers: Running, home: Path, said: str = ""):
    place = {"pubmed": "eutils"}.get(name, name)
    spec = f'{name}[url="http://127.0.0.1:{providers.port}/{place}",rate=1000{said}]'
    assert not needs_corpus(parse(spec))
    return open_searcher(spec, "", home)


async def test_pubmed_needs_no_corpus_and_keeps_chapters(providers: Running, tmp_path: Path) -> None:
    searcher = opened("pubmed", providers, tmp_path)
    found = await searcher.search("croup dose", 3)
    assert searcher.corpus == "pubmed@live"
    assert [(hit.id, hit.title) for hit in found] == [
        ("2", "An article on croup"),
        ("900", "A chapter on croup"),
        ("3", "An article on croup"),
    ]
    assert found[1].text == "What a chapter says of croup."
    assert {hit.corpus for hit in found} == {f"pubmed@{datetime.now(UTC).date().isoformat()}"}
    assert await searcher.search("  ", 3) == []


async def test_a_question_that_nothing_has_whole_is_searched_by_its_words(providers: Running, tmp_path: Path) -> None:
    searcher = opened("pubmed", providers, tmp_path)
    for query, why in ((LONG, "more than 30 words"), ("one two croup three four five six", "nothing has all words")):
        with SEARCH_NOTES.collecting() as notes:
            assert len(await searcher.search(query, 3)) == 3
        assert [note.what for note in notes] == ["any_words"]
        assert why in notes[0].text
    with SEARCH_NOTES.collecting() as notes:
        assert await opened("pubmed", providers, tmp_path, ",match=all").search(LONG, 3) == []
    assert notes == []


def test_the_words_of_a_question() -> None:
    found = content_words("What is the best dose of dexamethasone for a child with croup: is the Dose 0.6 mg/kg?")
    assert found == ["dose", "dexamethasone", "child", "croup", "0.6", "mg", "kg"]


def test_a_book_without_chapters() -> None:
    [book] = parsed(
        b"<PubmedArticleSet><PubmedBookArticle><BookDocument><PMID>5</PMID><Book><BookTitle>A Book</BookTitle><PubDate>"
        b"<Year>2001</Year></PubDate></Book><Abstract><AbstractText Label='AIM'>To say.</AbstractText></Abstract>"
        b"</BookDocument></PubmedBookArticle></PubmedArticleSet>"
    )
    assert (book.id, book.title, book.text) == ("5", "A Book", "AIM: To say.")


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ("pubmed", False),
        ("bm25", True),
        ("rrf[a=pubmed,b=web[provider=tavily]]", False),
        ("rrf[a=pubmed,b=bm25]", True),
        ("rerank[of=pubmed,model=bge-reranker]", False),
        ("rerank[model=bge-reranker]", True),
        ("web[provider=tavily]", False),
    ],
)
def test_which_retrievers_need_a_corpus(spec: str, needed: bool) -> None:
    assert needs_corpus(parse(spec)) is needed


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("pubmed[match=some]", "expected auto, all or any"),
        ("pubmed[mach=any]", "Did you mean 'match'"),
        ("pubmed[rate=-1]", "> 0.0 - at `..rate`"),
    ],
)
def test_specs_that_make_no_sense(spec: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=reason):
        open_searcher(spec, "", tmp_path)
