"""Scorers found by scanning, and the headline that a benchmark's card names."""

from msgspec.structs import replace

from ragrounds.evals.benchmarks import all_cards
from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.evals.scorers import all_scorers, headline_of, ready_scorers, scorers_for
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.catalogue import usual_scores
from tests.scorers.making import attempt, gold, question, shipped


def headlines(asked, present=None, card=None):
    return [(one.kind, one.scorer, shipped(one.columns)) for one in headline_of(asked, present, card)]


def test_every_scorer_is_found_and_says_all_of_itself():
    found = all_scorers()
    assert {"mirage", "strict", "robust", "facts", "rouge-l", "triplets"} <= set(found)
    assert {"equivalent", "comprehensiveness", "contradiction", "ragas_faithfulness"} <= set(found)
    for name, made in found.items():
        assert isinstance(made, ScorerRecord)
        assert name == made.name
        assert made.summary
        assert made.method
        assert made.kinds
        assert bool(made.needs) == (not made.computes), name
    named = {name: name in made.command(["run-1"]) for name, made in ready_scorers().items()}
    assert named == {name: True for name, made in found.items() if made.computes}
    lower = [name for name, made in found.items() if made.direction == "lower"]
    assert shipped(lower) == ("contradiction", "hallucination-rate")


def test_every_scorer_of_a_question_scores_an_attempt():
    scores = {score.scorer: score for score in usual_scores(attempt("B"), question(), gold("B"))}
    assert set(scores) == {scorer.name for scorer in scorers_for(question())} >= {"robust"}
    assert (scores["robust"].value, scores["robust"].prediction) == (1.0, "B")


def test_every_card_names_scorers_that_are_there():
    for card in all_cards():
        assert set(card.scorers) <= set(all_scorers()), card.name
        assert len(set(card.scorers)) == len(card.scorers), card.name


def test_mirage_is_the_headline_of_its_own_benchmarks_alone():
    assert [card.name for card in all_cards() if "mirage" in card.headline] == [
        card.name for card in all_cards() if card.name.partition("/")[0] == "mirage"
    ]
    own, other = question(benchmark="mirage/medqa"), question(benchmark="pubmedqa/test")
    assert headlines([own]) == [("choice", "mirage", ("strict", "robust"))]
    assert headlines([other]) == [("choice", "robust", ("strict", "mirage"))]
    assert headlines([question(benchmark="jsonl/own")]) == [("choice", "robust", ("strict",))]
    assert scorers_for(own)[0].name == "mirage"
    assert scorers_for(other)[0].name == "robust"


def test_the_headline_is_one_that_all_systems_have():
    own = question(benchmark="mirage/medqa")
    assert headlines([own], {"strict", "robust"}) == [("choice", "strict", ("robust",))]
    patient = question({}, kind="long", benchmark="kqa", metadata={"facts": "statements"})
    assert headlines([patient], {"rouge-l"}) == [("long", "rouge-l", ())]
    judged = {"rouge-l", "contradiction", "hallucination-rate", "comprehensiveness"}
    beside = ("hallucination-rate", "contradiction", "rouge-l")
    assert headlines([patient], judged) == [("long", "comprehensiveness", beside)]
    assert headlines([patient], {"strict"}) == []


def test_each_kind_of_question_has_its_headline():
    asked = [question(benchmark="sample"), question({}, kind="long", benchmark="sample")]
    assert headlines(asked) == [("choice", "robust", ("strict", "mirage")), ("long", "facts", ())]


def test_a_card_that_is_given_counts():
    card = replace(card_of("pubmedqa"), headline=("strict",), columns=())
    assert headlines([question(benchmark="pubmedqa/test")], card=card) == [("choice", "strict", ("robust",))]


def test_another_scorer_stands_beside_and_a_secondary_one_does_not():
    asked = [question({}, kind="long", benchmark="ogcarebench")]
    present = {"equivalent", "ragas_faithfulness", "rouge-l[k=1]", "exact-match"}
    assert headlines(asked, present) == [("long", "equivalent", ("ragas_faithfulness",))]
