"""Leaving passages out that cannot be among the first k: with bounds that hold, it changes no result."""

import math
import random

import numpy as np
import pytest

from ragrounds.base.specs import parse
from ragrounds.tools.index.collection_builder import open_collection
from ragrounds.tools.retrievers import bm25
from ragrounds.tools.retrievers.bm25 import open_bm25

pytest.importorskip("numba", reason="needs numba: install ragrounds[fast]")


def _open(home, lines, spec="bm25[analyser=plain]"):
    home.mkdir(exist_ok=True)
    (home / "corpus.jsonl").write_text("".join(f'{{"_id": "{n}", "text": "{text}"}}\n' for n, text in enumerate(lines)))
    return open_bm25(open_collection(f"beir:{home}", home), bm25.bm25_parameters(parse(spec)))


def _compiled(searcher, questions, k):
    searcher._compiled = True
    return [searcher.ranked(question, k) for question in questions]


def _plain(searcher, questions, k):
    searcher._compiled, searcher._uncompiled = False, math.inf
    return [searcher.ranked(question, k) for question in questions]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A collection of 70,000 short passages in two windows, and questions of 1 to 12 words."""
    draw = random.Random(7)
    words = [f"w{n}" for n in range(3000)]
    weights = [1 / (n + 1) for n in range(3000)]
    lines = [" ".join(draw.choices(words, weights, k=draw.randint(1, 12))) for _ in range(70_000)]
    lines[69_000] = "w3 " * 400 + "w2900 " * 300  # counts beyond one byte, in both kinds of lists
    questions = [" ".join(draw.choices(words, [w**0.5 for w in weights], k=draw.randint(1, 12))) for _ in range(60)]
    return _open(tmp_path_factory.mktemp("pruning"), lines), [*questions, "w3", "w2900", "w3 w2900 w2901"]


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 10, 100, 2000])
def test_results_are_those_of_adding_everything(searched, k):
    searcher, questions = searched
    assert _compiled(searcher, questions, k) == _plain(searcher, questions, k)


@pytest.mark.slow
def test_all_kinds_of_lists_are_there(searched):
    searcher, _ = searched
    lists = searcher._postings.lists
    assert (lists.rows >= 0).any()
    assert (lists.rows < 0).any()
    assert len(lists.rare_starts) > 1
    assert len(lists.many_keys) == 2
    assert len(lists.windows[0]) == 3


@pytest.mark.slow
def test_many_equal_scores_are_thinned_out(tmp_path):
    """Ties far beyond k: what is kept meanwhile is scored and cut back, of equal ones the first stay."""
    searcher = _open(tmp_path / "ties", ["a b", "a c", "a d a", "e"] * 8_000, "bm25[analyser=plain,b=0]")
    questions = ["a", "a e", "b c d", "a b c d e"]
    for k in (1, 10, 700):
        assert _compiled(searcher, questions, k) == _plain(searcher, questions, k)
    assert [position for position, _ in _compiled(searcher, ["a"], 3)[0]] == [2, 6, 10]


@pytest.mark.slow
def test_a_query_of_thousands_of_terms(searched):
    searcher, _ = searched
    query = [" ".join(f"w{n}" for n in range(3000))]
    assert _compiled(searcher, query, 10) == _plain(searcher, query, 10)


@pytest.mark.slow
def test_the_bounds_are_the_greatest_weights(searched):
    postings = searched[0]._postings
    for term in range(len(postings.holders)):
        passages, weights = postings.column(term)
        assert len(passages) == postings.holders[term]
        assert weights.max() == postings.maxima[term]
        assert (np.diff(passages) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 100])
def test_bounds_that_are_too_low_would_be_seen(searched, monkeypatch, k):
    """Passages are really left out here: otherwise the first test would say nothing."""
    searcher, questions = searched
    expected = _plain(searcher, questions, k)
    lists = searcher._postings.lists
    low = lists.common_codes // 3
    low.flags.writeable = False
    monkeypatch.setattr(searcher._postings, "lists", lists._replace(common_codes=low))
    assert _compiled(searcher, questions, k) != expected
