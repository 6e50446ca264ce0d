import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from ragrounds.evals.scorers import find_scorer
from ragrounds.evals.scorers.triplets import parse
from tests.scorers.making import attempt, gold, question


def micro_f1(scores):
    """By the parts that every figure is made of."""
    parts = [find_scorer("triplets").parts(one) for one in scores]
    below = sum(part for _, part in parts)
    return sum(part for part, _ in parts) / below if below else None


def score(text, wanted):
    return find_scorer("triplets").score(attempt(text), question({}, kind="extraction"), gold(json.dumps(wanted)))


TRIPLETS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("rs"), st.sampled_from("ab")), max_size=6)


@given(st.lists(st.tuples(TRIPLETS, TRIPLETS), min_size=1, max_size=8))
def test_micro_f1_equals_scikit_learn(answers):
    scores = [score(json.dumps(found), wanted) for found, wanted in answers]
    made = micro_f1(scores)
    labels = sorted({triplet for found, wanted in answers for triplet in (*found, *wanted)})
    if not labels:
        assert made is None
        return
    # A single column would be taken as a binary problem with two classes: one label that never occurs keeps it apart.
    binarizer = MultiLabelBinarizer(classes=[*labels, ("z", "z", "z")])
    wanted = binarizer.fit_transform([set(wanted) for _, wanted in answers])
    found = binarizer.transform([set(found) for found, _ in answers])
    assert made == pytest.approx(f1_score(wanted, found, average="micro", zero_division=0.0))


@given(st.text())
def test_any_text_can_be_parsed(text):
    found = parse(text)
    assert found is None or all(len(triplet) == 3 for triplet in found)


@pytest.mark.data
def test_ddi_gold_against_itself(data, tmp_path):
    from ragrounds.evals.benchmarks import load

    benchmark = load(f"ddi/test:{data}/ddi", tmp_path)
    scores = []
    for asked in benchmark.questions:
        answer = benchmark.golds[asked.id]
        scores.append(find_scorer("triplets").score(attempt(f"Here: {answer.answer}"), asked, answer))
    assert micro_f1(scores) == 1.0
    assert {made.value for made in scores} == {1.0}
