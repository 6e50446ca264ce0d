"""Which documents are candidates, what becomes of them, which questions are too easy."""

from __future__ import annotations

import asyncio

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Question
from ragrounds.evals.judges.verdict import read_verdict
from ragrounds.extensions.construction.committee import Committee, by_frequency, open_committee, rankings_of
from ragrounds.extensions.construction.relevance_mining import (
    CONTRACT,
    GradeThresholds,
    chosen_option,
    difficulty,
    fate,
)


def test_documents_go_by_how_many_rankings_hold_them() -> None:
    rankings = {"a/query": ["x", "y", "z"], "a/answer": ["y", "w"], "b/query": ["z", "y"], "b/answer": ["w", "x", "x"]}
    found = by_frequency(rankings)
    # y stands in three. w and x have a first and a second place, z a third and a first.
    assert [(each.id, each.times) for each in found] == [("y", 3), ("w", 2), ("x", 2), ("z", 2)]
    assert found[0].found_by == ("a/query", "a/answer", "b/query")
    assert [each.id for each in by_frequency(rankings, limit=2)] == ["y", "w"]


def test_equal_documents_go_by_id_whatever_the_order_of_the_rankings() -> None:
    rankings = {"one": ["b", "a"], "two": ["a", "b"]}
    assert [each.id for each in by_frequency(rankings)] == ["a", "b"]
    assert [each.id for each in by_frequency(dict(reversed(rankings.items())))] == ["a", "b"]


def test_known_positives_are_candidates_beyond_the_number_even_if_nobody_found_them() -> None:
    found = by_frequency({"one": ["a", "b", "c"]}, limit=1, known_ids=["lost", "b"])
    assert [(each.id, each.times) for each in found] == [("lost", 0), ("b", 1), ("a", 1)]


def test_a_committee_gives_every_members_ranking(tmp_path) -> None:
    committee = open_committee(["bm25", "bm25[k1=1.2,b=0.75]", "bm25[analyser=plain]"], "sample", tmp_path)
    found = asyncio.run(committee.search("thunderclap headache", 4))
    rankings = rankings_of({"query": found})
    assert list(rankings) == ["bm25/query", "bm25_2/query", "bm25_3/query"]
    assert all(len(ids) == 4 for ids in rankings.values())
    assert [passage.rank for passage in found] == [1, 2, 3, 4] * 3
    assert committee.spec.startswith("committee[bm25=")
    assert committee.document(found[0].document)[0].id == found[0].id
    with pytest.raises(UserError, match="twice"):
        open_committee(["bm25", "bm25"], "sample", tmp_path)
    with pytest.raises(UserError, match="needs a retriever"):
        Committee({})


@pytest.mark.parametrize(
    ("relevance", "support", "expected"),
    [(8, 8, "positive"), (10, 9, "positive"), (8, 7, "dropped"), (5, 5, "dropped"), (10, 0, "dropped"),
     (4, 5, "dropped"), (4, 4, "negative"), (0, 0, "negative"), (9, 4, "dropped")],
)  # fmt: skip
def test_two_axes_make_a_positive_a_negative_or_neither(relevance: int, support: int, expected: str) -> None:
    assert fate({"relevance": relevance, "support": support}, GradeThresholds()) == expected


def test_a_grade_that_is_missing_or_not_on_the_scale_makes_no_label() -> None:
    assert fate({"relevance": 9}, GradeThresholds()) == "ungraded"
    assert fate({"fault": "empty reply"}, GradeThresholds()) == "ungraded"
    for text in ('{"relevance": 11, "support": 9}', '{"relevance": "8/10", "support": 9}', "Relevant.", ""):
        assert not read_verdict(text, CONTRACT).complete
    assert read_verdict('Good. {"relevance": 9, "support": 8}', CONTRACT).values == {"relevance": "9", "support": "8"}


@pytest.mark.parametrize(("positive", "negative"), [(4, 4), (3, 5), (11, 4), (8, -1)])
def test_thresholds_that_overlap_are_refused(positive: int, negative: int) -> None:
    with pytest.raises(UserError, match="expected 0 ≤ negative < positive"):
        GradeThresholds(positive=positive, negative=negative)


def test_a_question_is_too_easy_when_more_than_one_small_model_answers_it() -> None:
    assert difficulty({"one": "A", "two": "B", "three": "", "four": "C"}, "A") == "kept"
    assert difficulty({"one": "A", "two": "A", "three": None, "four": "C"}, "A") == "too easy"
    # A reply that cannot be read could be the second that is right, or could not matter.
    assert difficulty({"one": "A", "two": None}, "A") == "undecided"
    assert difficulty({"one": "B", "two": None}, "A") == "kept"


def test_the_panels_replies_are_read_strictly_by_what_they_say() -> None:
    question = Question(id="q", benchmark="t", text="Which?", options={"A": "Aspirin", "B": "Insulin"})
    assert chosen_option('{"answer_choice": "B"}', question) == "B"
    assert chosen_option('{"answer_choice": "None of these"}', question) == ""
    assert chosen_option("Hm.", question) is None
    assert chosen_option("", question) is None
