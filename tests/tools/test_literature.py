"""PubMed and Europe PMC as retrievers, over HTTP on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ragrounds.errors import UserError
from ragrounds.specs import parse
from ragrounds.tools.retriever import needs_corpus, open_searcher
from ragrounds.tools.search_notes import SEARCH_NOTES
from ragrounds.tools.web.any_words import content_words
from ragrounds.tools.web.europe_pmc import article_text
from ragrounds.tools.web.pubmed import parsed
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


async def test_europe_pmc(providers: Running, tmp_path: Path) -> None:
    searcher = opened("europe_pmc", providers, tmp_path)
    found = await searcher.search("croup", 5)
    assert [(hit.id, hit.title, hit.text) for hit in found] == [
        ("2", "On croup", "Aim Croup & its dose."),
        ("PPR:PPR1", "A preprint", "A preprint"),
    ]
    whole = await opened("europe_pmc", providers, tmp_path, ",fulltext=true").search("croup", 5)
    assert whole[0].text == "Aim Croup & its dose.\n\nResults\nA single dose was enough for croup."
    assert whole[1].text == "A preprint"


async def test_a_query_that_europe_pmc_cannot_parse_is_noted(providers: Running, tmp_path: Path) -> None:
    with SEARCH_NOTES.collecting() as notes:
        assert await opened("europe_pmc", providers, tmp_path, ",match=all").search("dose (croup", 5) == []
    assert [note.what for note in notes] == ["search_refused"]
    assert "The query cannot be parsed" in notes[0].text
    with SEARCH_NOTES.collecting() as notes:
        assert len(await opened("europe_pmc", providers, tmp_path).search("dose (croup", 5)) == 2
    assert [note.what for note in notes] == ["any_words"]


def test_a_book_without_chapters() -> None:
    [book] = parsed(
        b"<PubmedArticleSet><PubmedBookArticle><BookDocument><PMID>5</PMID><Book><BookTitle>A Book</BookTitle><PubDate>"
        b"<Year>2001</Year></PubDate></Book><Abstract><AbstractText Label='AIM'>To say.</AbstractText></Abstract>"
        b"</BookDocument></PubmedBookArticle></PubmedArticleSet>"
    )
    assert (book.pmid, book.title, book.journal, book.year, book.abstract) == (
        "5",
        "A Book",
        "A Book",
        "2001",
        "AIM: To say.",
    )


@pytest.mark.parametrize(
    "content", [b"no xml", b'<!DOCTYPE a [<!ENTITY x "y">]><article><body><p>&x;</p></body></article>']
)
def test_texts_that_play_tricks(content: bytes) -> None:
    with pytest.raises(ValueError, match="XML that cannot be read"):
        article_text(content)


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ("pubmed", False),
        ("bm25", True),
        ("rrf[a=pubmed,b=europe_pmc]", False),
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
        ("europe_pmc[fulltext=1]", "expected true or false"),
        ("europe_pmc[rate=-1]", "> 0.0 - at `..rate`"),
    ],
)
def test_specs_that_make_no_sense(spec: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=reason):
        open_searcher(spec, "", tmp_path)
