"""Scorers of short answers: the words of Search-R1's reward and Search-o1's evaluation."""

import pytest

from ragrounds.evals.scorers import find_scorer
from ragrounds.evals.scorers.short_answers import last_answer, normalised, word_f1
from tests.conftest import Cli
from tests.scorers.making import attempt, gold, question

ASKED = question({}, kind="long")


def score(name, text, reference="The Old Bridge", status="completed", **more):
    return find_scorer(name).score(attempt(text, status), ASKED, gold(reference, **more))


@pytest.mark.parametrize(
    ("text", "same", "inside", "shared"),
    [
        ("old bridge", 1.0, 1.0, 1.0),
        ("<answer>An OLD bridge!</answer>", 1.0, 1.0, 1.0),
        ("It is the old bridge", 0.0, 1.0, 2 * 2 / (4 + 2)),
        ("bridge, new", 0.0, 0.0, 2 / 4),
        ("<answer>x</answer> <answer>old bridge</answer>", 1.0, 1.0, 1.0),
        ("tower", 0.0, 0.0, 0.0),
    ],
)
def test_answers_by_pencil(text, same, inside, shared):
    assert score("exact-match", text).value == same
    assert score("answer-within", text).value == inside
    assert score("word-f1", text).value == pytest.approx(shared)


def test_the_best_wording_counts_and_what_is_missing_has_no_value():
    assert score("exact-match", "stari most", facts=(("Stari Most", "old bridge"),)).value == 1.0
    assert score("exact-match", "stari most", facts=(("Stari Most",), ("Mostar",))).value == 0.0
    without = score("exact-match", "x", " ")
    assert (without.value, without.reason) == (None, "the question has no reference answer")
    assert score("exact-match", "", status="failed").value == 0.0
    assert score("exact-match", "", status="not_run").value is None


def test_boxes_and_fields_state_a_short_answer():
    for text in (r"So it is \boxed{\text{aspirin}}.", '{"reason": "pain", "answer": "aspirin"}', "正确答案是：aspirin"):
        assert score("robust-match", text, "aspirin").value == 1.0
        assert score("robust-match", text, "heparin").value == 0.0
    assert score("robust-match", "type-2 diabetes", "type 2 diabetes").value == 1.0


def test_texts_without_words_share_none():
    assert word_f1("", "") == word_f1("old", "") == 0.0


def test_punctuation_joins_words_and_articles_go():
    assert normalised(" A blue-green  owl,\nthe U.S.A. ") == "bluegreen owl usa"
    assert last_answer("<answer> a </answer>", least=2) is None
    assert last_answer("<answer></answer><answer> b </answer>", least=2) == "b"


def test_it_scores_a_run_when_it_is_asked_for(command: Cli) -> None:
    assert command("run", "--agent", "direct", "--limit", "4", "--display", "none").returncode == 0
    done = command("score", "direct", "--scorer", "word-f1")
    assert done.returncode == 0, done.stderr
    assert "word-f1" in command("compare", "direct", "--scorer", "word-f1").stdout
