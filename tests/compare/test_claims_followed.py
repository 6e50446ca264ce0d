"""A claim followed round by round, beside a confidence sequence that is fed by hand."""

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.claims.claims import LiveClaim, parse_claim
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.evals.stats.sequential import ConfidenceSequence
from ragrounds.evals.trace.filter_fields import BOUNDED_MEASURES
from tests.compare.making import questions


def followed(text, *rounds):
    """A claim after rounds, each with a table of values: (run, question id) → value."""
    live = LiveClaim(parse_claim(text))
    for drawn, values in rounds:
        live.add(drawn, lambda measure, run, question, values=values: values.get((run, question)))
    return live


def drawn(*parts):
    return QuestionRound(tuple(tuple(part) for part in parts))


ASKED = questions(60)


def simple(question, first, second):
    return drawn([question]), {("a", question.id): first, ("b", question.id): second}


def test_the_bounds_are_those_that_the_sum_can_reach():
    # 2 a - b - 0.5 lies between -1.5 and 1.5.
    text = "2*accuracy(a) - accuracy(b) > 0.5 @ 90%"
    pairs = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.5, 0.25)]
    live = followed(text, *[simple(question, *pair) for question, pair in zip(ASKED, pairs, strict=False)])
    sequence = ConfidenceSequence(-1.5, 1.5, level=0.9, null=0.0)
    for first, second in pairs:
        sequence.add(2 * first - second - 0.5)
    expected, state = sequence.interval, live.state
    (found,) = state.conditions
    assert (state.claim, state.decision, state.questions) == (text, "undecided", 5)
    ends = (expected.mean, expected.low, expected.high)
    assert (found.value, found.low, found.high) == pytest.approx([end + 0.5 for end in ends])
    assert (found.measured, found.claimed) == ("2 * accuracy(a) - accuracy(b)", "> 0.5")
    assert (found.level, found.p, found.rounds, found.missing) == (0.9, expected.p, 5, 0)
    assert found.decision == live.decision == "undecided"


def test_before_the_first_round_nothing_is_known():
    (found,) = followed("accuracy(a) > 0.5 @ 95%").state.conditions
    assert (found.value, found.low, found.high, found.p, found.rounds, found.missing) == (None, None, None, None, 0, 0)
    assert (found.decision, found.level) == ("undecided", 0.95)


def test_a_round_counts_by_the_mean_of_its_datasets_of_the_mean_of_duplicates():
    (one, two), (three,) = ASKED[:2], questions(1, "x/two")
    values = {("a", one.id): 1.0, ("a", two.id): 0.0, ("a", three.id): 1.0}
    live = followed("accuracy(a) > 0 @ 95%", (drawn([one, two], [three]), values))
    assert (live.state.conditions[0].value, live.state.questions) == (0.75, 3)
    # A duplicate without a score is left out, a dataset without any takes the round with it.
    part = followed("accuracy(a) > 0 @ 95%", (drawn([one, two], [three]), {**values, ("a", one.id): None}))
    assert part.state.conditions[0].value == 0.5
    gone = followed("accuracy(a) > 0 @ 95%", (drawn([one, two], [three]), {**values, ("a", three.id): None}))
    (found,) = gone.state.conditions
    assert (found.value, found.rounds, found.missing, gone.state.questions) == (None, 0, 1, 3)
    twice = followed(
        "accuracy(a) > 0 @ 95%", (drawn([one]), {}), (drawn([two]), {}), (drawn([three]), {("a", three.id): 1.0})
    )
    assert (twice.state.conditions[0].missing, twice.state.conditions[0].rounds) == (2, 1)


def test_a_difference_needs_both():
    question = ASKED[0]
    live = followed("accuracy(a) > accuracy(b) @ 95%", (drawn([question]), {("a", question.id): 1.0}))
    assert live.state.conditions[0].missing == 1


def test_each_condition_asks_for_its_own_measure():
    asked = []

    def value(measure, run, question):
        asked.append((measure, run, question))
        return 1.0 if measure == "accuracy" else 0.0

    live = LiveClaim(parse_claim("accuracy(a) > 0.5 @ 95% and failed(b) < 0.5 @ 80%"))
    live.add(drawn([ASKED[0]]), value)
    assert asked == [("accuracy", "a", ASKED[0].id), ("failed", "b", ASKED[0].id)]
    assert [one.value for one in live.state.conditions] == [1.0, 0.0]
    assert [one.level for one in live.state.conditions] == [0.95, 0.8]


def test_what_is_decided_stays_decided():
    rounds = [simple(question, 1.0, 0.0) for question in ASKED[:20]]
    live = followed("accuracy(a) > accuracy(b) @ 95%", *rounds)
    assert live.decision == "holds"
    for drawn_, values in [simple(question, 0.0, 1.0) for question in ASKED[20:]]:
        live.add(drawn_, lambda measure, run, question, values=values: values[run, question])
    assert live.decision == live.state.decision == "holds"
    assert live.state.conditions[0].value == pytest.approx(-1 / 3)
    assert live.state.conditions[0].rounds == 60  # and is still followed
    assert followed("accuracy(a) < accuracy(b) @ 95%", *rounds).decision == "fails"
    assert followed("separated(b, a)", *rounds).decision == "holds"


@pytest.mark.parametrize("measure", BOUNDED_MEASURES)
def test_shares_can_be_watched(measure):
    assert followed(f"{measure}(a) > 0.5 @ 95%").decision == "undecided"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "accuracy(a) - cost(a) - tokens(a) > 0 @ 95%",
            "cost has no upper bound, so its interval is not valid during a run. Measures "
            f"for `until`: {', '.join(BOUNDED_MEASURES)}.",
        ),
        ("accuracy(a) > 0.5", "without a level the first question would decide. Add one, such as @ 95%."),
        ("accuracy(a) > accuracy(a) @ 95%", "it compares a run with itself."),
        ("2*accuracy(a) - accuracy(a) > accuracy(a) @ 95%", "it compares a run with itself."),
    ],
)
def test_what_cannot_be_watched_is_said_with_the_claim(text, said):
    with pytest.raises(UserError) as caught:
        followed(text)
    assert str(caught.value) == f"A run cannot be stopped by {text!r}: {said}"


def test_terms_that_do_not_cancel_can_be_watched():
    assert followed("accuracy(a) - failed(a) > 0 @ 95%").decision == "undecided"
    assert followed("accuracy(a) - accuracy(b) > 0 @ 95%").decision == "undecided"
    assert followed("2*accuracy(a) > accuracy(a) @ 95%").decision == "undecided"
