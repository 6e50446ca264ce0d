"""The score so far, against the figure that the table makes of the same attempts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.records import Attempt, Gold, Question, Score
from ragrounds.evals.compare.figures import figure, figure_so_far
from ragrounds.evals.compare.question_values import scorer_values
from ragrounds.evals.engine.live_score import LiveScore
from ragrounds.evals.scorers.triplets import TRIPLETS

EPOCHS = 2
QUESTIONS = [
    Question(id=f"{dataset}/{number}", text="?", options={"A": "a", "B": "b"}, benchmark=f"x/{dataset}")
    for dataset, count in (("one", 5), ("two", 2), ("three", 1))
    for number in range(count)
]
RESULTS = st.sampled_from(["right", "wrong", "half", "missing", "failed", "unscored"])


def told(question, epoch, result):
    status = "failed" if result == "failed" else "completed"
    value = {"right": 1.0, "wrong": 0.0, "half": 0.5, "missing": None}.get(result)
    score = Score(question_id=question.id, epoch=epoch, scorer="robust", value=value, answer_status="answered")
    attempt = Attempt(run="r", question_id=question.id, epoch=epoch, status=status, text="")
    return attempt, (score if result in ("right", "wrong", "half", "missing") else None)


@given(st.lists(RESULTS, min_size=len(QUESTIONS) * EPOCHS, max_size=len(QUESTIONS) * EPOCHS), st.randoms())
def test_a_whole_run_has_the_figure_of_its_table(results, random):
    keys = [(question, epoch) for question in QUESTIONS for epoch in range(EPOCHS)]
    made = dict(zip([(question.id, epoch) for question, epoch in keys], results, strict=True))
    live = LiveScore(QUESTIONS)
    assert (live.scorer, live.average, live.pooled) == ("robust", None, None)
    random.shuffle(keys)
    for question, epoch in keys:
        live.add(*told(question, epoch, "wrong"))  # is made again: what stands then counts
        live.add(*told(question, epoch, made[question.id, epoch]))
    scores = [score for question, epoch in keys if (score := told(question, epoch, made[question.id, epoch])[1])]
    values = scorer_values(QUESTIONS, scores, EPOCHS)
    unscored = [question for (question, _), result in made.items() if result == "unscored"]
    found = figure(QUESTIONS, values | dict.fromkeys(unscored), {}, 0, epochs=EPOCHS)
    assert live.average == pytest.approx(found.value)
    assert live.pooled == pytest.approx(found.pooled)


def test_what_is_not_asked_yet_is_in_no_mean():
    live = LiveScore(QUESTIONS)
    live.add(*told(QUESTIONS[0], 0, "right"))
    assert (live.average, live.pooled) == (1.0, 1.0)
    live.add(*told(QUESTIONS[1], 0, "wrong"))
    live.add(*told(QUESTIONS[7], 0, "right"))
    assert live.average == live.pooled == pytest.approx(2 / 3)
    live.add(*told(QUESTIONS[7], 1, "missing"))
    assert (live.average, live.pooled) == (0.5, 0.5)
    live.add(*told(Question(id="else", text="?", options={"A": "a"}, benchmark="x/one"), 0, "right"))
    assert live.average == 0.5


def test_the_first_answer_of_a_dataset_does_not_halve_the_score_so_far():
    asked = [
        Question(id=f"{dataset}/{number}", text="?", options={"A": "a", "B": "b"}, benchmark=f"x/{dataset}")
        for dataset, count in (("one", 40), ("two", 25), ("three", 3))
        for number in range(count)
    ]
    live = LiveScore(asked)
    for number, question in enumerate(asked[:40]):
        live.add(*told(question, 0, "right" if number % 8 < 5 else "wrong"))
    assert live.average == figure_so_far(live).value == 0.625
    live.add(*told(asked[40], 0, "wrong"))
    assert (live.is_pooled, live.average) == (True, 25 / 41)  # the mean over two datasets: .3125
    found = figure_so_far(live)
    assert found.value == live.average
    assert found.low < live.average < found.high
    for question in asked[41:50]:
        live.add(*told(question, 0, "wrong"))
    assert (live.is_pooled, live.average) == (True, 0.5)  # of the third none is made
    for question in asked[65:]:
        live.add(*told(question, 0, "right"))
    assert not live.is_pooled  # ten of each, or all that there are
    assert live.average == figure_so_far(live).value == pytest.approx((0.625 + 0 + 1) / 3)
    assert live.pooled == pytest.approx(28 / 53)


def test_a_question_and_its_duplicate_widen_the_interval_of_a_pooled_score():
    widths = []
    for cluster in ("", "case {}"):
        asked = [
            Question(id=f"{dataset}/{number}", text="?", options={"A": "a"}, benchmark=f"x/{dataset}",
                     cluster=cluster.format(number // 2))
            for dataset, count in (("one", 40), ("two", 40))
            for number in range(count)
        ]  # fmt: skip
        live = LiveScore(asked)
        for number, question in enumerate(asked[:41]):
            live.add(*told(question, 0, "right" if number // 2 % 2 else "wrong"))
        assert live.is_pooled
        found = figure_so_far(live)
        widths.append(found.high - found.low)
    assert widths[1] > 1.2 * widths[0]  # 1.41 times, if pairs are alike


def test_questions_that_nothing_scores_have_no_score():
    live = LiveScore([])
    live.add(*told(QUESTIONS[0], 0, "right"))
    assert (live.scorer, live.average, live.pooled) == ("", None, None)


TEXTS = [
    Question(id=f"{dataset}/{number}", text="?", kind="extraction", benchmark=f"x/{dataset}")
    for dataset, count in (("one", 3), ("two", 2))
    for number in range(count)
]
GOLDS = {
    one.id: Gold(question_id=one.id, answer=json.dumps([["a", "r", str(place)] for place in range(number)]))
    for number, one in enumerate(TEXTS)
}
FOUND = st.sampled_from(["[]", '[["a", "r", "0"]]', '[["a", "r", "0"], ["b", "s", "c"]]', "none", "failed", "not made"])


@given(st.lists(FOUND, min_size=len(TEXTS) * EPOCHS, max_size=len(TEXTS) * EPOCHS), st.randoms())
def test_a_figure_of_the_corpus_is_the_tables_too(results, random):
    keys = [(question, epoch) for question in TEXTS for epoch in range(EPOCHS)]
    made = dict(zip([(question.id, epoch) for question, epoch in keys], results, strict=True))
    live, scores = LiveScore(TEXTS, GOLDS), []
    random.shuffle(keys)
    for question, epoch in keys:
        text = made[question.id, epoch]
        status = "failed" if text in ("failed", "not made") else "completed"
        attempt = Attempt(
            run="r", question_id=question.id, epoch=epoch, status=status, text=text * (status != "failed")
        )
        score = TRIPLETS.score(attempt, question, GOLDS[question.id])
        live.add(attempt, None if text == "not made" else score)
        if text != "not made":
            scores.append(score)
    values = scorer_values(TEXTS, scores, EPOCHS, TRIPLETS, GOLDS)
    found = figure(TEXTS, values, {}, 0, TRIPLETS, EPOCHS)
    assert live.scorer == "triplets"
    assert live.average == (None if found.value is None else pytest.approx(found.value))
    assert live.pooled == (None if found.pooled is None else pytest.approx(found.pooled))
