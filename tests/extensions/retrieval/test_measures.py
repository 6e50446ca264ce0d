"""Measures against plain readings of their definitions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.errors import UserError
from ragrounds.extensions.retrieval.measures import canonical, deepest, means, measure, ordered

_ids = st.sampled_from([f"d{n}" for n in range(12)])
_judged = st.dictionaries(_ids, st.integers(0, 3), min_size=1)
_scores = st.dictionaries(_ids, st.sampled_from([0.0, 0.25, 1.0, 1.5, -3.0, 7.25]))


def naive(judged, scores, k):
    """nDCG, P, R, MAP, MRR at k of one query, by their definitions."""
    ranking = [d for d, _ in sorted(scores.items(), key=lambda item: (item[1], item[0]), reverse=True)][:k]
    gains = [max(0, judged.get(d, 0)) for d in ranking]
    ideal = sorted((g for g in judged.values() if g > 0), reverse=True)[:k]
    hits = [gain > 0 for gain in gains]
    relevant = sum(grade > 0 for grade in judged.values())

    def dcg(values):
        return sum(gain / math.log2(place + 2) for place, gain in enumerate(values))

    return {
        f"nDCG@{k}": dcg(gains) / dcg(ideal) if ideal else 0.0,
        f"P@{k}": sum(hits) / k,
        f"R@{k}": sum(hits) / relevant if relevant else 0.0,
        f"MAP@{k}": sum(sum(hits[: n + 1]) / (n + 1) for n, hit in enumerate(hits) if hit) / relevant
        if relevant
        else 0.0,
        f"MRR@{k}": next((1 / (n + 1) for n, hit in enumerate(hits) if hit), 0.0),
    }


@given(judged=_judged, scores=_scores, k=st.integers(1, 13))
def test_values_are_the_definitions(judged, scores, k):
    expected = naive(judged, scores, k)
    found = measure({"q": judged}, {"q": scores}, list(expected))
    for name, value in expected.items():
        assert found[name]["q"] == pytest.approx(value, abs=1e-6), name
    whole = measure({"q": judged}, {"q": scores}, ["MAP"])["MAP"]["q"]
    assert whole == pytest.approx(naive(judged, scores, 12)["MAP@12"], abs=1e-6)


@given(judged=_judged, scores=_scores)
def test_ties_do_not_depend_on_the_order_given(judged, scores):
    turned = dict(reversed(list(scores.items())))
    assert measure({"q": judged}, {"q": scores}) == measure({"q": judged}, {"q": turned})
    assert ordered(scores) == ordered(turned)


@given(
    found=st.lists(st.tuples(st.booleans(), st.integers(0, 3).map(float)), min_size=1, max_size=12),
    missing=st.integers(0, 2),
)
def test_equal_scores_as_one_threshold_are_scikit_learns(found, missing):
    from sklearn.metrics import average_precision_score

    grades = {f"d{place}": int(good) for place, (good, _) in enumerate(found)}
    scores = {f"d{place}": score for place, (_, score) in enumerate(found)}
    made = measure({"q": grades}, {"q": scores}, ["tiedMAP"])["tiedMAP"]["q"]
    held = sum(grades.values())
    expected = average_precision_score(list(grades.values()), list(scores.values())) if held else 0.0
    assert made == pytest.approx(expected)
    # What is relevant and was not found counts in the denominator.
    more = {**grades, **{f"m{place}": 1 for place in range(missing)}}
    partly = measure({"q": more}, {"q": scores}, ["tiedMAP"])["tiedMAP"]["q"]
    assert partly == pytest.approx(expected * held / (held + missing) if held else 0.0)


def test_every_judged_query_counts_and_no_other():
    judgements = {"1": {"a": 1}, "2": {"b": 1}, "3": {"c": 1}}
    values = measure(judgements, {"1": {"a": 1.0}, "2": {}, "9": {"a": 1.0}}, ["R@1", "MRR@1"])
    assert values["R@1"] == {"1": 1.0, "2": 0.0, "3": 0.0}
    assert means(values) == pytest.approx({"R@1": 1 / 3, "MRR@1": 1 / 3})
    assert measure(judgements, {}, ["R@1"])["R@1"] == {"1": 0.0, "2": 0.0, "3": 0.0}


def test_the_threshold_of_relevance():
    judged, scores = {"q": {"a": 1, "b": 2}}, {"q": {"a": 2.0, "b": 1.0}}
    assert measure(judged, scores, ["MRR"])["MRR"]["q"] == 1.0
    assert measure(judged, scores, ["MRR"], relevant=2)["MRR"]["q"] == 0.5


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("ndcg@10", "nDCG@10"),
        ("map@010", "MAP@10"),
        ("Recall@5", "R@5"),
        ("mrr", "MRR"),
        ("TiedMap", "tiedMAP"),
        ("gm_map", "gm_map"),
        ("iprec_at_recall_0.10", "iprec_at_recall_0.10"),
    ],
)
def test_spellings(given, expected):
    assert canonical(given) == expected


@pytest.mark.parametrize("given", ["nDGC@10", "P", "R@0", "Rprec@5", "tiedMAP@3", "", "R@x", "ndcg_cut_x", "nDCG@-1"])
def test_what_is_no_measure(given):
    with pytest.raises(UserError):
        canonical(given)


def test_how_deep_the_measures_look():
    assert deepest(["nDCG@10", "R@100"]) == 100
    assert deepest(["nDCG@10", "MAP"]) == 1000
