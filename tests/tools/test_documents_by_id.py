"""A document's passages by its id, as the oracle asks for them."""

from ragrounds.base.contracts import Library
from ragrounds.tools.retriever import open_searcher


def test_the_document_and_nothing_else(beir, tmp_path):
    corpus = beir([("1", "One", "First."), ("2", "Two", "Second."), ("22", "", "Third.")])
    searcher = open_searcher("bm25", corpus, tmp_path / "home")
    assert isinstance(searcher, Library)
    assert [(passage.id, passage.text) for passage in searcher.document("2")] == [("2", "Second.")]
    assert searcher.document("3") == []
