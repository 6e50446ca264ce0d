"""Leaving passages out that cannot be among the first k: with bounds that hold, it changes no result."""

import importlib.util
import random

import numpy as np
import pytest

from ragrounds.specs import parse
from ragrounds.tools import postings
from ragrounds.tools.collection_builder import open_collection
from ragrounds.tools.retrievers import bm25
from ragrounds.tools.retrievers.bm25 import open_bm25

K = 3


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A collection of 600 passages with common and rare words in four shards, and questions of eight words."""
    draw = random.Random(7)
    words = [f"w{n}" for n in range(60)]
    weights = [1 / (n + 1) for n in range(60)]
    lines = [
        f'{{"_id": "{n}", "text": "{" ".join(draw.choices(words, weights, k=draw.randint(5, 60)))}"}}\n'
        for n in range(600)
    ]
    home = tmp_path_factory.mktemp("pruning")
    (home / "corpus.jsonl").write_text("".join(lines))
    collection = open_collection(f"beir:{home}", home)
    searcher = open_bm25(collection, bm25.bm25_parameters(parse("bm25[analyser=plain]")), shard=150)
    return searcher, [" ".join(draw.choices(words, k=8)) for _ in range(120)]


def _results(searcher, questions):
    return [searcher.ranked(question, K) for question in questions]


@pytest.fixture
def eager(monkeypatch):
    """Everything is tried as soon as it is allowed."""
    monkeypatch.setattr(postings, "_LONG", 0.0)
    monkeypatch.setattr(postings, "_NARROW", 1.0)
    monkeypatch.setattr(postings, "_AGAIN", 1.0)
    monkeypatch.setattr(postings, "_LOOK_UP", 1)


@pytest.fixture
def plain(searched):
    searcher, questions = searched
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_LONG", 2.0)
        return _results(searcher, questions)


@pytest.mark.parametrize("compiled", [False, True])
def test_results_do_not_change(searched, plain, eager, compiled, monkeypatch):
    if compiled and importlib.util.find_spec("numba") is None:
        pytest.skip("needs numba: install ragrounds[fast]")
    searcher, questions = searched
    monkeypatch.setattr(searcher, "_compiled", compiled)
    assert _results(searcher, questions) == plain


def test_the_bounds_are_the_greatest_weights(searched):
    searcher, _ = searched
    greatest = np.zeros(len(searcher._numbers), dtype=np.float32)
    for shard in searcher._shards:
        for term in range(len(greatest)):
            greatest[term] = max(greatest[term], shard.column(term)[1].max(initial=0))
    np.testing.assert_array_equal(searcher._most, greatest)


def test_bounds_that_are_too_low_would_be_seen(searched, plain, eager, monkeypatch):
    """Passages are really left out here: otherwise the first test would say nothing."""
    searcher, questions = searched
    monkeypatch.setattr(searcher, "_most", searcher._most * np.float32(0.3))
    monkeypatch.setattr(searcher, "_compiled", False)
    assert _results(searcher, questions) != plain
