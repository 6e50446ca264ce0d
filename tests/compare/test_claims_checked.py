"""Claims about stored runs with figures from a pencil: what a measure is, which interval decides, what is left out."""

import re

import pytest
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import Score, Usage
from ragrounds.evals.claims.assertions import check_claims
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, ConditionVerdict
from ragrounds.evals.stats import combined_mean, paired_difference, stratified_mean
from ragrounds.ui.tables.claim_text import against_lines, claim_lines, claim_table
from ragrounds.ui.text import UNKNOWN
from tests.compare.making import add_run, add_runs, questions


def checked(store, runs, claim, **options):
    (verdict,) = check_claims(store, runs, [claim], **options)
    return verdict.conditions[0]


def share(right, n, level=0.95):
    """The interval of one run's share, as its table has it."""
    made = stratified_mean([1.0] * right + [0.0] * (n - right), level=level)
    return made.low, made.high


def test_a_verdict_says_everything_that_decided_it(store):
    run = add_run(store, "one", questions(4), [1, 1, 1, 0])
    (verdict,) = check_claims(store, [run], ["accuracy(one) - 0.5 > 0 and failed(one) >= 0.1 @ 90%"])
    first, second = verdict.conditions
    assert verdict == ClaimVerdict(
        claim="accuracy(one) - 0.5 > 0 and failed(one) >= 0.1 @ 90%",
        decision="undecided",
        scorer="strict",
        conditions=(first, second),
    )
    low, high = share(3, 4)  # without a level the interval is that of 95 %
    assert first == ConditionVerdict(
        decision="holds", measured="accuracy(one)", claimed="> 0.5", value=0.75, low=pytest.approx(low),
        high=pytest.approx(high), level=None, questions=4,
    )  # fmt: skip
    low, high = share(0, 4, 0.9)
    assert second == ConditionVerdict(
        decision="undecided", measured="failed(one)", claimed=">= 0.1", value=pytest.approx(0.0),
        low=pytest.approx(low), high=pytest.approx(high), level=0.9, questions=4,
        reason="a claim with a level needs 10 questions or more",
        against=tuple(f"x/one/{place}" for place in range(4)), against_count=4,  # none of them failed
    )  # fmt: skip


def test_a_claim_that_does_not_hold_names_the_questions_that_break_it(store):
    asked = questions(4)
    one, two = add_run(store, "one", asked, [1, 0, 0, 1]), add_run(store, "two", asked, [1, 1, 0, 0])
    names = [question.id for question in asked]
    for claim, wanted in (
        ("accuracy(one) > 0.9", [names[1], names[2]]),
        ("accuracy(one) >= 0.5", []),  # it holds
        ("accuracy(one) - accuracy(two) > 0.1", [names[1]]),  # where two alone is right; the others are alike
        ("accuracy(one) - 0.5 * accuracy(two) > 0.8", [names[1], names[2], names[0]]),  # no difference, a sum
        ("accuracy(two) < 0.1 @ 95%", [names[0], names[1]]),
        ("separated(one, two)", []),  # it has no direction
    ):
        (condition,) = check_claims(store, [one, two], [claim])[0].conditions
        assert (list(condition.against), condition.against_count) == (wanted, len(wanted)), claim
        assert condition.alike == (2 if claim.endswith("> 0.1") else 0)


def test_questions_alike_are_counted_and_not_named(store):
    asked = questions(4)
    runs = [add_run(store, "one", asked, [1, 0, 0, 1]), add_run(store, "two", asked, [1, 1, 0, 0])]
    for claim, said in (
        ("accuracy(one) - accuracy(two) > 0.1", ["1 question speaks against accuracy(one) - accuracy(two) > 0.1:",
                                                 f"  {asked[1].id}", "  2 without a difference"]),
        ("accuracy(one) > accuracy(one) + 0.2",
         ["No question speaks against accuracy(one) - accuracy(one) > 0.2; 4 without a difference"]),
    ):  # fmt: skip
        assert list(against_lines(check_claims(store, runs, [claim]))) == said


def test_an_interval_that_nobody_asked_for_is_not_printed(store):
    run = add_run(store, "one", questions(4), [1, 1, 1, 0])
    plain, asked = (list(claim_lines(check_claims(store, [run], [f"accuracy(one) > 0.7{at}"]))) for at in ("", "@90%"))
    assert plain[1] == "  accuracy(one) = 0.75, claimed: > 0.7, n = 4"
    assert asked[1].startswith("  accuracy(one) = 0.75, 90 % interval ")
    (row,) = claim_table(check_claims(store, [run], ["accuracy(one) > 0.7"])).rows
    assert row[3] == UNKNOWN


def test_what_an_attempt_used_is_a_mean_over_questions(store):
    # Two epochs of two questions: 110 and 210 tokens each time, half a second, one call.
    asked = questions(2)
    run = add_run(store, "one", asked, [[1, 0], [1, 1]], epochs=2, cost_uncached=0.02)
    for claim, value in (
        ("tokens(one) > 0", 160.0),
        ("model_calls(one) > 0", 1.0),
        ("seconds(one) > 0", 0.5),
        ("cost(one) > 0", 0.02),
        ("cost_paid(one) > 0", 0.02),
        ("accuracy(one) > 0", 0.75),
    ):
        assert checked(store, [run], claim).value == pytest.approx(value)


def test_costs_have_the_bootstrap_of_their_mean(store):
    costs = [place**1.7 for place in range(60)]
    run = add_run(store, "one", questions(60), [1] * 60, cost_uncached=costs)
    expected = stratified_mean(costs, bounded=False, level=0.9, seed=4)
    found = checked(store, [run], "cost(one) > 40 @ 90%", seed=4)
    assert (found.value, found.low, found.high) == (
        pytest.approx(expected.value), pytest.approx(expected.low), pytest.approx(expected.high),
    )  # fmt: skip
    few = add_run(store, "few", questions(49, "x/few"), [1] * 49, cost_uncached=costs[:49])
    other = checked(store, [run], "cost(one) > 40 @ 90%", seed=5)
    assert (other.low, other.high) != (found.low, found.high)
    assert checked(store, [run], "cost(one) > 40 @ 90%") == checked(store, [run], "cost(one) > 40 @ 90%", seed=0)
    # Equal costs say nothing of how costs vary, and have no bound that could stand in for it; nor have few costs.
    for one, claim in (
        (run, "model_calls(one) > 0.5 @ 95%"),
        (few, "cost(few) > 0.5 @ 95%"),
        (few, "model_calls(few) > 0 @ 90%"),
    ):
        even = checked(store, [one], claim)
        assert (even.low, even.high, even.decision) == (None, None, "undecided")
        assert even.reason == "too few questions, or too little variation, for an interval"
        assert even.value > 0
    assert checked(store, [few], "cost(few) > 0.5").decision == "holds"  # no interval was asked for


def test_outcomes_are_shares_of_attempts(store):
    asked = questions(4)
    run = add_run(
        store, "one", asked, [[1, 1], [0, 0], [0, 0], [0, 1]], epochs=2,
        status={1: "failed"}, answer_statuses={2: "refused", 3: "abstained"},
    )  # fmt: skip
    for claim, value in (
        ("failed(one) > 0", 0.25),
        ("refused(one) > 0", 0.25),
        ("abstained(one) > 0", 0.25),
        ("blocked(one) >= 0", 0.0),
        ("unreadable(one) >= 0", 0.0),
    ):
        assert checked(store, [run], claim).value == pytest.approx(value)
    # One of two epochs is half a question.
    half = add_run(store, "two", questions(1, "x/two"), [[0, 1]], epochs=2, answer_statuses={0: "refused"})
    assert checked(store, [half], "refused(two) > 0.5").value == pytest.approx(1.0)


def test_an_answer_that_nobody_scored_counts_as_answered(store):
    run = add_run(store, "one", questions(2), ["unscored", 1], answer_statuses={0: "refused"})
    assert checked(store, [run], "refused(one) >= 0").value == 0.0


def test_the_share_of_one_run_has_the_tables_interval_whatever_its_factor(store):
    run = add_run(store, "one", questions(10), [1] * 7 + [0] * 3)
    low, high = share(7, 10)
    found = checked(store, [run], "0.9 > 2 * accuracy(one) @ 95%")
    assert (found.value, found.low, found.high) == (
        pytest.approx(1.4), pytest.approx(2 * low), pytest.approx(2 * high),
    )  # fmt: skip
    assert (found.measured, found.claimed) == ("2 * accuracy(one)", "< 0.9")
    third = checked(store, [run], "failed(one) < 0.3 @ 80%")
    assert third.high == pytest.approx(share(0, 10, 0.8)[1])


def test_a_share_in_epochs_in_clusters_or_of_datasets_has_the_tables_interval(store):
    asked = questions(4)
    run = add_run(store, "one", asked, [[1, 0], [1, 1], [0, 0], [1, 1]], epochs=2)
    made = stratified_mean([0.5, 1.0, 0.0, 1.0], attempts=2)
    found = checked(store, [run], "accuracy(one) > 0 @ 95%")
    assert (found.low, found.high) == (pytest.approx(made.low), pytest.approx(made.high))
    twins = questions(4, "x/twins", cluster="c")[:2] + questions(4, "x/twins")[2:]
    run = add_run(store, "two", twins, [1, 1, 0, 0])
    made = stratified_mean([1.0, 1.0, 0.0, 0.0], ["a"] * 4, ["c", "c", "", ""])
    found = checked(store, [run], "accuracy(two) > 0 @ 95%")
    assert (found.low, found.high) == (pytest.approx(made.low), pytest.approx(made.high))
    assert found.value == 0.5
    both = questions(2, "x/small") + questions(6, "x/large")
    run = add_run(store, "three", both, [1, 0, 1, 1, 1, 0, 0, 0])
    made = stratified_mean([1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0], ["s"] * 2 + ["l"] * 6)
    found = checked(store, [run], "accuracy(three) > 0 @ 95%")
    assert (found.value, found.low, found.high) == (0.5, pytest.approx(made.low), pytest.approx(made.high))


def test_a_difference_has_the_interval_of_its_pairs(store):
    asked = questions(30)
    first, second = [1, 0, 1] * 10, [1, 1, 0, 1, 0, 1] * 5
    runs = [add_run(store, "one", asked, first), add_run(store, "two", asked, second)]
    made = paired_difference(second, first, ["x"] * 30, level=0.8, seed=2)
    found = checked(store, runs, "accuracy(one) > accuracy(two) + 5% @ 80%", seed=2)
    assert (found.value, found.low, found.high) == (
        pytest.approx(made.value), pytest.approx(made.low), pytest.approx(made.high),
    )  # fmt: skip
    assert (found.measured, found.claimed) == ("accuracy(one) - accuracy(two)", "> 0.05")


def test_answers_that_are_all_alike_still_leave_room(store):
    asked = questions(4)
    runs = [add_run(store, name, asked, [1, 0, 1, 0]) for name in ("one", "two")]
    found = checked(store, runs, "accuracy(one) > accuracy(two) @ 95%")
    assert (found.value, found.low) == (0.0, pytest.approx(-found.high))
    assert found.high > 0.3
    # 2 a - b lies between -1 and 2; it is 2 where a alone is right.
    good, bad = add_run(store, "good", asked, [1] * 4), add_run(store, "bad", asked, [0] * 4)
    for first, second in (("good", "bad"), ("bad", "good")):
        found = checked(store, [good, bad], f"2 * accuracy({first}) - accuracy({second}) > 0.3 @ 95%")
        right = {"good": [1.0] * 4, "bad": [0.0] * 4}
        made = combined_mean([right[first], right[second]], [2.0, -1.0], [""] * 4)
        assert (found.value, found.low, found.high) == pytest.approx((made.value, made.low, made.high))
        assert made.high - made.low > 0.5


def test_a_claim_has_the_interval_of_its_table(store):
    # A claim said -0.39 to 0.59 where its table said 50-50.
    asked = questions(2, "x/a") + questions(3, "x/b") + questions(1, "x/c")
    runs = [add_run(store, "one", asked, [1, 1, 1, 1, 1, 0]), add_run(store, "two", asked, [0, 0, 1, 1, 1, 0])]
    table = compare(store, runs).tables[0]
    pair = table.pairs[0].tests
    found = checked(store, runs, "accuracy(two) > accuracy(one) @ 95%")
    assert (found.value, found.low, found.high) == pytest.approx((pair.difference, pair.low, pair.high))
    for line, name in zip(table.lines, ("one", "two"), strict=True):
        found = checked(store, runs, f"accuracy({name}) > 0 @ 95%")
        whole = line.overall
        assert (found.value, found.low, found.high) == pytest.approx((whole.value, whole.low, whole.high))
        assert whole.high - whole.low > 0.3


def test_what_has_no_score_is_left_out_and_counted(store):
    asked = questions(5)
    first = add_run(store, "one", asked, [1, None, 1, 0, 1])
    second = add_run(store, "two", asked, [1, 1, None, 0, 1])
    found = checked(store, [first, second], "accuracy(one) >= accuracy(two)")
    assert (found.questions, found.value) == (3, 0.0)
    assert found.reason == "2 questions have no score and are left out"
    assert checked(store, [second, first], "accuracy(one) > 0").questions == 4
    none = add_run(store, "three", questions(2, "x/none"), [None, None])
    found = checked(store, [none], "accuracy(three) > 0 @ 95%")
    assert found == ConditionVerdict(
        decision="undecided", measured="accuracy(three)", claimed="> 0", level=0.95, reason="no question has a score"
    )


def test_a_cost_that_is_not_known_decides_nothing(store):
    asked = questions(2)
    run = add_run(store, "one", asked, [1, 1], cost_uncached=[None, 1.0])
    other = add_run(store, "two", asked, [1, 1])
    found = checked(store, [run, other], "cost(two) < cost(one) @ 90%")
    assert found == ConditionVerdict(
        decision="undecided", measured="cost(two) - cost(one)", claimed="< 0", level=0.9,
        reason="the cost of one-run is unknown",
    )  # fmt: skip


def test_a_question_that_was_not_asked_has_cost_nothing_and_ended_in_no_way(store):
    asked = questions(2)
    run = add_run(store, "one", asked, [1, ...], usage=Usage(90, 10))
    assert checked(store, [run], "tokens(one) > 0").value == pytest.approx(50.0)
    assert checked(store, [run], "failed(one) >= 0").value == 0.0


def test_accuracy_is_by_the_scorer_asked_for(store):
    asked = questions(2)
    run = add_run(store, "one", asked, [1, 0], scorer="robust")
    (verdict,) = check_claims(store, [run], ["accuracy(one) > 0.4"], scorer="robust")
    assert (verdict.scorer, verdict.decision) == ("robust", "holds")
    bare = add_run(store, "two", questions(1, "x/bare"), ["unscored"])
    with pytest.raises(UserError, match=r"^These runs have no scores yet: no claim can be checked\.$"):
        check_claims(store, [bare], ["accuracy(two) > 0"])


def test_runs_of_different_questions_are_compared_on_those_in_common(store):
    asked = questions(6)
    first = add_run(store, "one", asked, [1, 1, 1, 0, ..., ...])
    second = add_run(store, "two", asked, [0, 0, 1, 1, 1, 1])
    found = checked(store, [first, second], "accuracy(one) > accuracy(two)", common=True)
    assert (found.questions, found.value) == (4, 0.25)
    table = compare(store, [first, second], common=True).tables[0]
    assert found.value == pytest.approx(-table.pairs[0].tests.difference)


def test_the_scorer_asked_for_comes_before_the_headline(store):
    asked = questions(4)
    run = add_run(store, "one", asked, [1, 1, 1, 0], scorer="robust")
    strict = [Score(question_id=one.id, epoch=0, scorer="strict", value=0.0, answer_status="refused") for one in asked]
    store.add_scores(run, strict)
    for scorer, accuracy, refused in ((None, 0.75, 0.0), ("robust", 0.75, 0.0), ("strict", 0.0, 1.0)):
        (verdict,) = check_claims(store, [run], ["accuracy(one) > 0.5 and refused(one) > 0"], scorer=scorer)
        assert (verdict.scorer, verdict.conditions[0].value) == (scorer or "robust", accuracy)
        assert verdict.conditions[1].value == refused


def test_nothing_times_a_share_is_its_constant(store):
    run = add_run(store, "one", questions(10), [1, 1, 0, 0, 1] * 2)
    found = checked(store, [run], "0 * accuracy(one) > -0.25 @ 95%")
    assert (found.value, found.low, found.high, found.decision) == (0.0, 0.0, 0.0, "holds")
    assert (found.measured, found.claimed) == ("0 * accuracy(one)", "> -0.25")


@pytest.mark.parametrize(
    ("claim", "measured", "claimed", "value"),
    [
        ("accuracy(one) - accuracy(two) > -5% @ 95%", "accuracy(one) - accuracy(two)", "> -0.05", 0.3),
        ("accuracy(one) + 0.05 >= accuracy(two)", "accuracy(one) - accuracy(two)", ">= -0.05", 0.3),
        ("0.05 < accuracy(one) - accuracy(two)", "accuracy(one) - accuracy(two)", "> 0.05", 0.3),
        ("0.8 >= accuracy(one)", "accuracy(one)", "<= 0.8", 0.7),
        ("0.1 > 0.5 * accuracy(two) - accuracy(one) @ 90%", "0.5 * accuracy(two) - accuracy(one)", "< 0.1", -0.5),
        ("-accuracy(one) > -0.9", "accuracy(one)", "< 0.9", 0.7),
        ("separated(one, two) @ 90%", "score(one) - score(two)", "not 0", 0.3),
        ("score(one) > 0", "score(one)", "> 0", 0.7),
    ],
)
def test_a_margin_stays_on_the_side_where_it_was_claimed(store, claim, measured, claimed, value):
    # 0.387 stood for a difference of 0.337 with a margin of .05.
    asked = questions(10)
    runs = add_runs(store, asked, one=[1, 1, 1, 1, 1, 1, 1, 0, 0, 0], two=[1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    found = checked(store, runs, claim)
    assert (found.measured, found.claimed, found.value) == (measured, claimed, pytest.approx(value))
    assert found.low < found.value < found.high


def test_what_is_no_accuracy_is_not_claimed_to_be_one(store):
    run = add_run(store, "one", questions(60), [0.2, 0.4] * 30, scorer="rouge-l")
    said = (
        "The claim 'accuracy(one) > 0.1' is about accuracy, but with rouge-l a score of 1 is not a right answer. "
        "Write score(one)."
    )
    with pytest.raises(UserError) as caught:
        check_claims(store, [run], ["accuracy(one) > 0.1"])
    assert str(caught.value) == said
    assert check_claims(store, [run], ["score(one) > 0.1 @ 95%"])[0].decision == "holds"
    assert checked(store, [run], "score(one) > 0.1").value == pytest.approx(0.3)


@pytest.mark.parametrize("values", [[2.0, 1.0, 0.0, 1.0, 0.5], [-1.0, 1.0, 0.0, 1.0, 0.5]])
def test_scores_that_are_no_shares_have_the_bootstrap_or_nothing(store, values):
    run = add_run(store, "one", questions(60), values * 12, scorer="points")
    made = stratified_mean(values * 12, bounded=False)
    found = checked(store, [run], "score(one) > 0 @ 95%")
    assert (found.low, found.high) == (pytest.approx(made.low), pytest.approx(made.high))
    few = add_run(store, "few", questions(5, "x/few"), values, scorer="points")
    assert checked(store, [few], "score(few) > 0 @ 95%").low is None


def test_how_attempts_ended_is_counted_over_every_kind_of_question(store):
    asked = [*questions(3), *(replace(one, kind="long", options={}) for one in questions(2, "x/one/long"))]
    asked = [replace(one, benchmark="x/one") for one in asked]
    run = add_run(store, "one", asked, [1, 1, 0, "unscored", "unscored"], status={4: "failed"})
    condition = checked(store, [run], "failed(one) <= 0")
    assert (condition.decision, condition.value, condition.questions) == ("fails", pytest.approx(0.2), 5)
    assert condition.against == (asked[4].id,)
    assert checked(store, [run], "capped(one) <= 0").questions == 5
    assert checked(store, [run], "failed(one) <= 0.3 @ 95%").decision == "undecided"
    # A score is about the questions of its scorer, and so is what it is set against.
    assert checked(store, [run], "accuracy(one) > 0.5").questions == 3
    assert checked(store, [run], "accuracy(one) - failed(one) > 0.5").questions == 3


@pytest.mark.parametrize(
    ("claim", "decision"),
    [
        ("accuracy(whole) - accuracy(killed) > 10% @ 95%", "undecided"),
        ("separated(whole, killed) @ 95%", "undecided"),
        ("accuracy(killed) < 50% @ 95%", "undecided"),
        ("accuracy(killed) < 50%", "undecided"),
        ("accuracy(killed) > 99% @ 95%", "fails"),  # whatever the open attempts come to
        ("accuracy(killed) > 95%", "fails"),  # 2 of 4 were wrong: at best 18 of 20
        ("accuracy(killed) >= 10%", "holds"),
        ("failed(killed) <= 0", "undecided"),
        ("failed(killed) <= 80%", "holds"),
        ("cost(killed) < 1", "undecided"),  # nothing bounds it
        ("accuracy(whole) > 50% @ 95%", "holds"),  # the other run's open attempts are not its own
    ],
)
def test_open_attempts_keep_a_claim_open(store, claim, decision):
    asked = questions(20)
    runs = add_runs(store, asked, whole=[1] * 19 + [0], killed=[1, 1, 0, 0] + [...] * 16)
    (verdict,) = check_claims(store, runs, [claim])
    assert verdict.decision == decision
    said = r"16 of 20 attempts of killed-run are open: they could (reverse|decide) this"
    assert bool(re.search(said, verdict.conditions[0].reason)) == (decision == "undecided")


@pytest.mark.parametrize(
    ("claim", "right", "said"),
    [
        ("accuracy(whole) - accuracy(killed) > 30% @ 95%", 10, ": they could decide this"),
        ("separated(whole, killed) @ 95%", 6, ": they could decide this"),
        ("accuracy(killed) > 40% @ 95%", 10, ": they could decide this"),
        ("separated(whole, killed) @ 99.9%", 12, "; whatever their results, the interval includes both sides"),
    ],
)
def test_where_nothing_is_told_yet_the_open_attempts_are_named(store, claim, right, said):
    asked = questions(20)
    killed = [1, 0] * 5 + [...] * 10 if "they could" in said else [1] * 10 + [0] * 8 + [...] * 2
    runs = add_runs(store, asked, whole=[1] * right + [0] * (20 - right), killed=killed)
    verdicts = check_claims(store, runs, [claim])
    assert verdicts[0].decision == "undecided"
    *_, line = claim_lines(verdicts)
    assert line.startswith(f"  {killed.count(...)} of 20 attempts of killed-run are open{said}"), line


def test_a_question_with_an_open_attempt_speaks_against_nothing(store):
    asked = questions(6)
    whole = add_run(store, "whole", asked, [0, 1, 1, 1, 1, 1])
    killed = add_run(store, "killed", asked, [1, 0, 1, 0, ..., ...], status={3: "failed"})
    for claim, wanted, alike in (
        ("accuracy(killed) - accuracy(whole) > 10% @ 95%", (asked[1].id,), 1),
        ("accuracy(killed) > 99%", (asked[1].id,), 0),
        ("accuracy(whole) > 99%", (asked[0].id,), 0),  # the other run's open attempts are not its own
        ("failed(killed) <= 0", (asked[3].id,), 0),  # it failed: that is evidence
    ):
        found = checked(store, [whole, killed], claim)
        assert (found.against, found.against_count, found.alike) == (wanted, len(wanted), alike), claim


def test_runs_are_not_apart_both_ways_round(store):
    asked = questions(200)
    runs = [add_run(store, "whole", asked, [1] * 100 + [0] * 100), add_run(store, "begun", asked, [...] * 200)]
    # Apart with every open attempt wrong, and with every one right, but not in between.
    assert checked(store, runs, "separated(whole, begun) @ 95%").decision == "undecided"


def test_one_failed_attempt_of_many_turns_nothing(store):
    asked = questions(100)
    run = add_run(store, "one", asked, [0] + [1] * 99, status={0: "failed"})
    assert checked(store, [run], "accuracy(one) > 90% @ 95%").decision == "holds"
    assert checked(store, [run], "failed(one) < 2%").decision == "holds"  # it failed: nothing is open about that
    assert checked(store, [run], "cost(one) < 1").decision == "holds"
    assert checked(store, [run], "accuracy(one) < 99.5%").decision == "undecided"


def test_runs_are_apart_where_the_test_of_the_summary_says_so(store):
    asked = questions(10)
    runs = [add_run(store, "one", asked, [1] * 2 + [0] * 8), add_run(store, "two", asked, [0] * 2 + [1] * 8)]
    (pair,) = compare(store, runs).tables[0].pairs
    assert pair.tests.p_mcnemar == 0.109375
    assert pair.tests.low < 0 < pair.tests.high  # and so the interval holds 0
    for claim in ("separated(one, two)", "accuracy(two) >= accuracy(one)", "accuracy(one) - accuracy(two) < 0"):
        found = checked(store, runs, f"{claim} @ 95%")
        assert found.decision == "undecided"
        assert found.low <= 0 <= found.high
    assert checked(store, runs, "separated(one, two) @ 80%").decision == "holds"


@pytest.mark.parametrize("claim", ["accuracy(one) > 0.05 @ 95%", "accuracy(one) < 1.01 @ 95%", "score(one) > 2 @ 90%"])
def test_fewer_than_ten_questions_decide_nothing(store, claim):
    nine, ten = (add_run(store, name, questions(count), [1] * count) for name, count in (("one", 9), ("two", 10)))
    found = checked(store, [nine], claim)
    assert (found.decision, found.reason) == ("undecided", "a claim with a level needs 10 questions or more")
    assert found.low > 0.05  # it is shown all the same
    assert checked(store, [ten], claim.replace("one", "two")).decision != "undecided"
    assert checked(store, [nine], claim.rpartition(" @")[0]).decision != "undecided"


def test_ten_questions_of_which_two_are_duplicates_are_nine(store):
    asked = [replace(one, cluster="x") if place < 2 else one for place, one in enumerate(questions(10))]
    found = checked(store, [add_run(store, "one", asked, [1] * 10)], "accuracy(one) > 0.05 @ 95%")
    assert found.decision == "undecided"
