"""Analyses of the passages that searches found: ranks, quality, sources."""

from __future__ import annotations

import math

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.records import Gold
from ragrounds.evals.analyses.analysis import AnalysisOptions
from ragrounds.evals.trace.traces import FoundPassages
from ragrounds.extensions.diagnostics.analyses.position import by_position
from ragrounds.extensions.diagnostics.analyses.quality import against_ndcg, ndcg
from ragrounds.extensions.diagnostics.analyses.sources import SOURCES, Sources, sizes_of, sources
from tests.analyses.stored_runs import COUNT, add, passage, placed


def test_accuracy_by_position(store):
    run = add(store, "rag", lambda i, e: i < 8)
    ranks = [1, 1, 2, 2, 3, 4, 8, 9, 17, 33, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    made = by_position(run, placed(ranks))
    assert [(found.ranks, found.questions) for found in made.bins] == [
        ("1", 2),
        ("2", 2),
        ("3–4", 2),
        ("5–8", 1),
        ("9–16", 1),
        ("17–32", 1),
        ("33 and more", 1),
        ("not found", 6),
    ]
    assert made.bins[0].figure.value == 1.0
    assert made.bins[-1].figure.value == 0.0
    assert made.without_gold == 4


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.sets(st.sampled_from("abcdxy"), min_size=1))
def test_ndcg_equals_trec_eval(documents, wanted):
    ranking = list(dict.fromkeys(documents))
    judged = [ir_measures.Qrel("q", document, 1) for document in wanted]
    run = [ir_measures.ScoredDoc("q", document, float(-rank)) for rank, document in enumerate(ranking)]
    expected = ir_measures.calc_aggregate([ir_measures.nDCG @ 2], judged, run)[ir_measures.nDCG @ 2] if run else 0.0
    gold = Gold(question_id="q", answer="", documents=tuple(wanted))
    assert ndcg([passage(document) for document in documents], gold, 2) == pytest.approx(expected)


def test_accuracy_against_ndcg(store):
    runs = [
        (add(store, f"rag{n}", lambda i, e, n=n: i < n * 5, created=float(n)), placed([4 - n] * COUNT))
        for n in (1, 2, 3)
    ]
    made = against_ndcg(runs)
    assert [point.ndcg for point in made.runs] == pytest.approx([0.5, 1 / math.log2(3), 1.0])
    assert made.correlation > 0.9
    assert against_ndcg(runs[:2]).correlation is None


def test_sources(store):
    run = add(store, "rag", lambda i, e: True)
    found = {
        f"x/{i}": FoundPassages("q", (passage("a"), passage("b", "textbooks@2"), passage("c"))) for i in range(COUNT)
    }
    made = sources(run, found, k=2, sizes={"pubmed": 9, "textbooks": 1})
    assert made.shares["b/0"] == {"pubmed": 0.5, "textbooks": 0.5}
    assert made.corpus == {"pubmed": 0.9, "textbooks": 0.1}


def test_sizes_of_what_a_run_searched(store):
    run = add(store, "rag", lambda i, e: True, corpus="pubmed@1+textbooks@2").run
    assert sizes_of(run, {"pubmed@1": 9, "textbooks@2": 1, "pubmed@0": 5}) == {"pubmed": 9, "textbooks": 1}
    # One unknown size leaves no share of any.
    assert sizes_of(run, {"pubmed@1": 9, "textbooks@1": 1}) == {}
    other = add(store, "rag", lambda i, e: True, created=2.0, corpus="mine@1+pubmed@1").run
    assert sizes_of(other, {"pubmed@1": 9}) == {}


def test_a_corpus_that_runs_share_is_drawn_once():
    shares = {"mirage/mmlu": {"pubmed": 1.0}}
    made = tuple(
        Sources(run=f"r{number}", k=2, shares=shares, corpus={"pubmed": 0.9, "wiki": 0.1}) for number in (1, 2)
    )
    picture = SOURCES.picture(made, AnalysisOptions(k=2))
    groups = dict.fromkeys(mark.group for mark in picture.marks)
    assert list(groups) == [
        "the corpus itself",
        "r1, mirage/mmlu",
        "r2, mirage/mmlu",
    ]
    # A source that nothing was found in stands in the table with 0.
    assert SOURCES.table(made, AnalysisOptions(k=2)).rows[1][:5] == ("r1", "mirage/mmlu", "wiki", 0.0, 0.1)
