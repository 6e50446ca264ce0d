import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, confusion_matrix
from statsmodels.stats import inter_rater

from ragrounds.evals.stats.agreement import (
    cohen_kappa,
    compare_with_human,
    fleiss_kappa,
    krippendorff_alpha,
    majority,
)

LABEL = st.sampled_from("abc")


@given(st.lists(st.tuples(LABEL, LABEL), min_size=1))
def test_cohen_equals_scikit_learn(pairs):
    first, second = zip(*pairs, strict=True)
    made = cohen_kappa(first, second)
    if made is None:
        assert len(set(first) | set(second)) == 1
    else:
        assert made == pytest.approx(cohen_kappa_score(first, second))


@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(LABEL, min_size=n, max_size=n), min_size=1)))
def test_fleiss_equals_statsmodels(ratings):
    made = fleiss_kappa(ratings)
    table, _ = inter_rater.aggregate_raters(np.array([["abc".index(label) for label in item] for item in ratings]))
    if made is not None:
        assert made == pytest.approx(inter_rater.fleiss_kappa(table))


def test_krippendorff_of_his_own_example():
    # Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", section C: four observers, missing data.
    rows = [
        "1 2 3 3 2 1 4 1 2 * * *",
        "1 2 3 3 2 2 4 1 2 5 * 3",
        "* 3 3 3 2 3 4 2 2 5 1 *",
        "1 2 3 3 2 4 4 1 2 5 1 *",
    ]
    items = list(zip(*[[None if label == "*" else label for label in row.split()] for row in rows], strict=True))
    assert krippendorff_alpha(items) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(items, "ordinal", order="12345") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(items, "interval") == pytest.approx(0.849, abs=5e-4)


@given(st.lists(st.tuples(LABEL, LABEL, LABEL), min_size=2))
def test_alpha_nears_fleiss_kappa_without_missing_labels(ratings):
    alpha, kappa = krippendorff_alpha(ratings), fleiss_kappa(ratings)
    if alpha is not None and kappa is not None:
        n = 3 * len(ratings)
        # The two differ by the small-sample correction of the expected disagreement only.
        assert alpha == pytest.approx(1 - (1 - kappa) * (n - 1) / n)


def test_the_interval_of_kappa_is_near_the_asymptotic_one_of_statsmodels():
    random = np.random.default_rng(3)
    human = random.choice(["a", "b", "c"], 600, p=[0.5, 0.3, 0.2])
    judge = np.where(random.random(600) < 0.75, human, random.choice(["a", "b", "c"], 600))
    names = sorted(set(human))
    table = confusion_matrix(human, judge, labels=names)
    expected = inter_rater.cohens_kappa(table)
    made = compare_with_human(judge.tolist(), human.tolist())
    assert made.kappa == pytest.approx(expected.kappa)
    assert (made.kappa_low, made.kappa_high) == pytest.approx((expected.kappa_low, expected.kappa_upp), abs=0.01)
    # Every item there four times over, and drawn together: no more is known than before.
    often = compare_with_human(judge.tolist() * 4, human.tolist() * 4, [str(n) for n in range(600)] * 4)
    assert (often.kappa_low, often.kappa_high) == pytest.approx((made.kappa_low, made.kappa_high), abs=0.01)
    assert often.accuracy.high - often.accuracy.low > 0.9 * (made.accuracy.high - made.accuracy.low)
    alone = compare_with_human(judge.tolist() * 4, human.tolist() * 4)
    assert alone.kappa_high - alone.kappa_low < 0.6 * (made.kappa_high - made.kappa_low)


@pytest.mark.data
def test_the_three_doctors_of_kqa(data):
    with (data / "kqa" / "dataset" / "NLI_medical_annotator.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    ratings = [[row[f"label_{doctor}"] for doctor in range(3)] for row in rows]
    assert len(ratings) == 399
    assert round(fleiss_kappa(ratings), 3) == 0.719
    agreed = [(majority(item), row["majority_label"]) for item, row in zip(ratings, rows, strict=True)]
    assert {ours == theirs for ours, theirs in agreed if ours is not None} == {True}


@pytest.mark.parametrize(("judge", "human", "side"), [("aaa", "aab", "judge"), ("aab", "bbb", "human")])
def test_a_side_with_one_label_has_no_kappa(judge, human, side):
    agreement = compare_with_human(judge, human)
    assert (agreement.kappa, list(agreement.constant)) == (None, [side])
