"""What every scorer has from the record it is made of."""

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Score
from ragrounds.evals.scorers import described, find_scorer, headline_of
from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.choice import ChoiceScorer
from tests.scorers.making import attempt, gold, question

BARE = ScorerRecord(name="bare", summary="s", method="m", kinds=("choice", "long"))


def test_the_defaults_are_those_of_a_share_of_right_answers():
    assert (BARE.unit, BARE.direction, BARE.needs) == ("percent", "higher", "")
    assert BARE.ratio is False
    assert BARE.beside
    flags = (BARE.usual, BARE.needs_judge, BARE.on_request, BARE.by_card, BARE.letters)
    assert flags == (False,) * 5


def test_a_score_names_its_scorer_question_and_epoch():
    read = AnswerRead("refused", "B", "why")
    made = BARE.scored(attempt("x"), 0.25, read)
    assert made == Score(
        question_id="x/1", epoch=0, scorer="bare", value=0.25, answer_status="refused", prediction="", reason="why"
    )
    other = BARE.scored(attempt("x"), None, read, "B", "another")
    assert (other.value, other.prediction, other.reason) == (None, "B", "another")
    assert BARE.parts(made) == (0.25, 1.0)
    with pytest.raises(ValueError, match=r"^the score of x/1 under bare has no value$"):
        BARE.parts(other)


def test_its_command_names_all_runs():
    assert BARE.command(["one", "two"]) == "ragrounds score one two --scorer bare"
    assert described("equivalent").command(["one", "two"]) == "ragrounds judge one two --kind equivalence --judge MODEL"
    assert described("ragas_answer_relevancy").command(["one"]) == (
        "ragrounds judge one --kind ragas_answer_relevancy --judge MODEL --embedder EMBEDDER"
    )


def changed(**more):
    return ScorerRecord(**{"name": "n", "summary": "s", "method": "m", "kinds": ("choice",), **more})


@pytest.mark.parametrize(
    ("made", "options", "expected"),
    [
        (changed(), {"A": "yes"}, True),
        (changed(needs="a judge"), {"A": "yes"}, False),
        (changed(on_request=True), {"A": "yes"}, False),
        (changed(kinds=("long",)), {"A": "yes"}, False),
        (changed(), {"12": "yes"}, True),
        (changed(letters=True), {"A": "yes", "B": "no"}, True),
        (changed(letters=True), {"A": "yes", "2": "no"}, False),
        (changed(letters=True), {"A": "yes", "BC": "no"}, False),
        (changed(letters=True), {}, True),
    ],
)
def test_what_is_scored_without_being_asked_for(made, options, expected):
    assert made.default(question(options)) is expected
    assert made.suits(question(options)) is ("choice" in made.kinds)


def test_a_choice_without_a_letter_counts_as_the_letter_that_it_has_for_that():
    def read(text, asked):
        return AnswerRead("answered", text) if text in asked.options else AnswerRead("unreadable")

    plain = ChoiceScorer(name="p", summary="s", method="m", read=read)
    lenient = ChoiceScorer(name="l", summary="s", method="m", read=read, otherwise="A")
    for made, text, status, prediction in (
        (plain, "B", "completed", "B"), (plain, "E", "completed", ""), (lenient, "E", "completed", "A"),
        (lenient, "", "completed", "A"), (lenient, "", "failed", ""), (lenient, "E", "failed", "A"),
        (lenient, " ", "capped", ""), (lenient, "B", "capped", "B"),
    ):  # fmt: skip
        for right in "AB":
            score = made.score(attempt(text, status), question(), gold(right))
            assert (score.prediction, score.value) == (prediction, float(prediction == right))
    nothing = plain.score(attempt("E"), question(), gold(""))
    assert nothing.value == 0.0  # no prediction is never right, not even where there is no gold
    assert lenient.score(attempt("B", "not_run"), question(), gold("B")).value is None
    assert plain.kinds == ("choice",)


def test_a_scorer_that_is_not_here_is_known_by_its_name():
    made = described("plugin[k=1]")
    assert (made.name, made.summary, made.method, made.kinds) == ("plugin[k=1]", "score", "plugin[k=1]", ("choice",))
    assert (made.direction, made.needs_judge) == ("higher", False)
    assert not made.suits(question())
    assert described("facts[x=1]") is described("facts")


def test_scorers_that_cannot_be_had_are_said_with_what_to_do():
    with pytest.raises(UserError) as caught:
        find_scorer("equivalent")
    assert str(caught.value) == (
        "The scorer 'equivalent' needs a judge: `ragrounds judge RUN --kind equivalence --judge MODEL`."
    )
    with pytest.raises(UserError) as caught:
        find_scorer("strikt")
    assert str(caught.value).startswith("Unknown scorer 'strikt'. Did you mean 'strict'")
    assert "`ragrounds list scorers`" in str(caught.value)
    assert "equivalent" not in str(caught.value)  # it could not be used by this name
    with pytest.raises(UserError, match="a scorer"):
        find_scorer("tests.scorers.making:FOUR")
    with pytest.raises(UserError, match="Unknown scorer"):
        find_scorer("strict[a=x:y]")


def test_a_headline_has_the_kind_of_its_question_and_no_scorer_twice():
    asked = [question(), question({}, kind="extraction"), question(benchmark="other")]
    first, second = headline_of(asked)
    assert (first.kind, first.scorer, second.kind, second.scorer) == ("choice", "robust", "extraction", "triplets")
    assert first.scorer not in first.columns
    assert second.columns == ()
    assert headline_of([]) == ()
    present = ["plugin", "strict", "facts", "mirage-pmc-llama"]
    (made,) = headline_of([question()], present)
    assert (made.scorer, made.columns) == ("plugin", ("strict",))  # by name, where no card orders them
