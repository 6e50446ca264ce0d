"""Runs that end when a claim about them is decided: what counts, what is kept, what is said of them afterwards."""

import math

import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Score
from ragrounds.evals.claims.assertions import check_claims
from ragrounds.evals.claims.claims import LiveClaim, parse_claim
from ragrounds.evals.claims.sequential_stop import ClaimStop, earlier_record, measured_value, save_stop
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.stopped_runs import StopRecord, early_stops, stop_records
from ragrounds.evals.engine.question_order import draw_rounds
from ragrounds.evals.stats.sequential import ConfidenceSequence
from tests.compare.making import add_run, questions

CLAIM = "accuracy(one) > accuracy(two) @ 95%"


def stop(runs, asked, claim=CLAIM, seed=3, most=None):
    return ClaimStop(claim, runs, asked, seed=seed, max_questions=most)


def pair(store, asked, first=1.0, second=0.0, **more):
    both = [value if isinstance(value, list) else [value] * len(asked) for value in (first, second)]
    return [
        add_run(store, name, asked, values, scorer="robust", **more)
        for name, values in zip(("one", "two"), both, strict=True)
    ]


def tell(until, run, question, value, epoch=0, status="completed", scorer="robust", answer_status="answered"):
    attempt = Attempt(run=run.id, question_id=question.id, epoch=epoch, status=status, text="")
    score = Score(question_id=question.id, epoch=epoch, scorer=scorer, value=value, answer_status=answer_status)
    other = replace(score, scorer="strict", value=0.25)
    until.observe(FinishedAttempt(run, attempt, (other, score)))


def empty(store, asked, epochs=1):
    return pair(store, asked, [...] * len(asked), [...] * len(asked), epochs=epochs)


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 2**80])
def test_a_seed_that_cannot_be_kept_is_refused(store, seed):
    runs = empty(store, questions(3))
    with pytest.raises(UserError) as caught:
        stop(runs, questions(3), seed=seed)
    assert (
        caught.value.args[0] == f"--seed {seed}: with --until the seed is stored with the run, and has at most 64 bits."
    )
    for kept in (2**63 - 1, -(2**63)):
        assert stop(runs, questions(3), seed=kept).seed == kept


def test_the_order_is_that_of_the_drawn_rounds(store):
    asked = questions(12)
    runs = empty(store, asked)
    until = stop(runs, asked, seed=5)
    assert until.questions == [one.questions[0] for one in draw_rounds(asked, 5)]
    assert stop(runs, asked, seed=5, most=7).questions == until.questions[:7]
    assert (until.seed, until.scorer, until.runs, until.epochs_together) == (5, "robust", tuple(runs), True)
    assert until.last == "all questions are answered"
    assert stop(runs, asked, most=12).last == "all questions are answered"
    assert stop(runs, asked, most=11).last == "--max-questions is reached"


def test_the_end_of_the_smallest_datasets_is_named(store):
    asked = questions(2, "x/s") + questions(5, "x/l") + questions(2, "x/t")
    runs = empty(store, asked)
    until = stop(runs, asked)
    assert len(until.questions) == 6
    assert until.last == "all questions of x/s, x/t are answered, and each round needs one of every dataset"
    with pytest.raises(UserError) as caught:
        stop(runs, asked, most=2)
    assert caught.value.args[0] == (
        "--max-questions 2: a round has 3 questions (one of each dataset, duplicates together); give as many or more."
    )
    assert len(stop(runs, asked, most=3).questions) == 3


def test_questions_that_the_scorer_does_not_score_are_not_asked(store):
    asked = [*questions(3), replace(questions(1, "x/long")[0], kind="long", options={})]
    until = stop(empty(store, asked), asked)
    assert {question.kind for question in until.questions} == {"choice"}
    assert len(until.questions) == 3


def test_a_claim_about_how_attempts_end_is_about_every_kind_of_question(store):
    asked = [*questions(12), *(replace(one, kind="long", options={}) for one in questions(8, "x/one/long"))]
    asked = [replace(one, benchmark="x/one") for one in asked]
    order = [one.questions[0] for one in draw_rounds(asked, 3)]
    made = [1.0 if one in order[:15] else ... for one in asked]  # 15 of 20 were asked when the command ended
    bad = next(place for place, one in enumerate(asked) if one in order[:15] and one.kind == "long")
    run = add_run(store, "one", asked, made, scorer="robust", status={bad: "capped"})
    until = stop([run], asked, "capped(one) < 0.01 @ 95%")
    assert until.questions == order
    until.read(store)
    assert until.state.conditions[0].value > 0  # the long answer that reached its cap counts
    save_stop(store, replace(until.record(), state=replace(until.state, decision="undecided")))
    verdict = check_claims(store, [run], ["capped(one) < 0.01 @ 60%"])[0].conditions[0]
    assert (verdict.questions, verdict.value, verdict.against) == (15, pytest.approx(1 / 15), (asked[bad].id,))
    assert check_claims(store, [run], ["accuracy(one) > 0.1 @ 60%"])[0].conditions[0].questions == sum(
        one.kind == "choice" for one in order[:15]
    )
    # With a score beside it, the questions are those of the scorer; so are those of a run that was begun so.
    both = stop([run], asked, "capped(one) < 0.01 @ 95% and accuracy(one) > 0.1 @ 95%")
    assert {one.kind for one in both.questions} == {"choice"}
    save_stop(store, replace(until.record(), every=False, state=replace(until.state, decision="undecided")))
    until.begin(store)
    assert {one.kind for one in until.questions} == {"choice"}
    assert stop_records(store, run)[-1].every is False


@pytest.mark.parametrize(
    ("measure", "status", "score", "value"),
    [
        ("accuracy", "completed", (0.75, "answered"), 0.75),
        ("accuracy", "completed", (None, "answered"), None),
        ("accuracy", "failed", None, 0.0),
        ("failed", "failed", None, 1.0),
        ("failed", "completed", (1.0, "answered"), 0.0),
        ("failed", "completed", (0.0, "empty"), 0.0),
        ("empty", "completed", (0.0, "empty"), 1.0),
        ("empty", "failed", (0.0, "empty"), 0.0),
        ("paused", "paused", (0.0, "empty"), 1.0),
        ("capped", "capped", (1.0, "answered"), 1.0),
        ("blocked", "blocked", None, 1.0),
        ("refused", "completed", (0.0, "refused"), 1.0),
        ("refused", "completed", None, 0.0),
        ("abstained", "completed", (0.0, "abstained"), 1.0),
        ("unreadable", "completed", (0.0, "unreadable"), 1.0),
        ("unreadable", "completed", (0.0, "refused"), 0.0),
    ],
)
def test_what_an_attempt_brings_to_a_measure(measure, status, score, value):
    made = score and Score(question_id="q", epoch=0, scorer="robust", value=score[0], answer_status=score[1])
    assert measured_value(measure, status, made) == value


def test_an_attempt_counts_by_the_headlines_score_and_a_question_by_all_its_epochs(store):
    asked = questions(5)
    runs = empty(store, asked, epochs=2)
    until = stop(runs, asked, "accuracy(one) - accuracy(two) > -0.5 @ 95% and refused(two) < 1 @ 95%")
    question = until.questions[0]
    tell(until, runs[0], question, 1.0)
    tell(until, runs[0], question, 0.0, epoch=1)
    tell(until, runs[1], question, 0.5)
    assert until.state.questions == 0
    tell(until, runs[1], question, 0.0, epoch=1, answer_status="refused")
    assert until.state.questions == 1
    first, second = until.state.conditions
    assert (first.value, second.value) == (pytest.approx(0.5 - 0.25), pytest.approx(0.5))
    assert (first.rounds, first.missing) == (1, 0)


def test_a_question_with_an_epoch_without_a_value_is_missing_and_one_asked_again_counts_by_the_last(store):
    asked = questions(5)
    runs = empty(store, asked, epochs=2)
    until = stop(runs, asked)
    one, other = until.questions[:2]
    for epoch, value in enumerate((1.0, None)):
        tell(until, runs[0], one, value, epoch)
        tell(until, runs[1], one, 1.0, epoch)
    assert (until.state.questions, until.state.conditions[0].missing) == (1, 1)
    tell(until, runs[0], other, 0.0, status="failed")
    tell(until, runs[0], other, 1.0)  # asked again
    tell(until, runs[0], other, 1.0, epoch=1)
    for epoch in range(2):
        tell(until, runs[1], other, 0.0, epoch)
    assert until.state.conditions[0].value == 1.0


def test_what_was_decided_is_said_and_nothing_after_it_is_counted(store):
    asked = questions(60)
    runs = empty(store, asked)
    until = stop(runs, asked)
    number = 0
    while not until.reached():
        for run, value in zip(runs, (1.0, 0.0), strict=True):
            tell(until, run, until.questions[number], value)
        number += 1
    sequence = ConfidenceSequence(null=0.0)
    for _ in range(number):
        before = sequence.interval
        sequence.add(1.0)
    assert sequence.interval.low > 0 >= before.low
    assert until.reached() == f"{CLAIM!r} holds after {number} questions"
    state = until.state
    for run, value in zip(runs, (0.0, 1.0), strict=True):
        tell(until, run, until.questions[number], value)
    assert until.state == state
    assert until.state.questions == number


def test_a_command_begins_by_keeping_that_runs_are_followed_and_with_what_they_have(store):
    asked = questions(6)
    runs = pair(store, asked)
    until = stop(runs, asked)
    assert until.state.questions == 0
    until.begin(store)
    assert until.state.questions == 6
    kept = StopRecord(runs=("one-run", "two-run"), seed=3, scorer="robust", state=until.state)
    assert stop_records(store, runs[0]) == stop_records(store, runs[1]) == [kept]
    assert earlier_record(store, runs, CLAIM, 3) == kept
    assert earlier_record(store, runs[::-1], CLAIM, 3) is None  # not the same runs in the same order
    assert earlier_record(store, runs[:1], CLAIM, 3) is None
    assert earlier_record(store, [], CLAIM, 3) is None
    assert earlier_record(store, runs, "accuracy(one) > 0.1 @ 95%", 3) is None
    with pytest.raises(UserError) as caught:
        stop(runs, asked, seed=4).begin(store)
    assert caught.value.args[0] == (
        "one-run has its questions in the order of --seed 3. Give --seed 3, or --new for another run."
    )
    with pytest.raises(UserError, match="in the order of"):
        earlier_record(store, runs[:1], CLAIM, 4)


def test_a_decision_of_before_stands_whatever_the_runs_have_now(store):
    asked = questions(6)
    runs = pair(store, asked)
    until = stop(runs, asked)
    decided = replace(until.state, decision="fails", questions=1_000)
    kept = StopRecord(runs=("one-run", "two-run"), seed=3, scorer="robust", state=decided, reason="then")
    save_stop(store, kept)
    until.begin(store)
    assert until.state == decided
    assert until.reached() == f"{CLAIM!r} fails after 1,000 questions"
    assert until.finish(store, "why it ended").reason == ""
    assert stop_records(store, runs[0]) == [kept]  # it remains as it was written


def test_a_claim_that_was_begun_under_another_headline_goes_on_under_it(store):
    asked = questions(6)
    runs = [
        add_run(store, name, asked, [value] * 6, scorer=scorer)
        for name, value, scorer in (("one", 1.0, "strict"), ("two", 0.0, "strict"))
    ]
    until = stop(runs, asked)
    undecided = StopRecord(runs=("one-run", "two-run"), seed=3, scorer="strict", state=until.state)
    save_stop(store, undecided)
    until.begin(store)
    assert until.scorer == "strict"
    assert until.state.conditions[0].value == 1.0
    assert stop_records(store, runs[0])[0].scorer == "strict"


def test_attempts_that_will_be_made_again_are_not_there_yet(store):
    asked = questions(3)
    order = [question.id for question in stop(empty(store, asked), asked).questions]
    failed = asked.index(next(question for question in asked if question.id == order[1]))
    runs = [
        add_run(store, name, asked, [1, 1, 1], scorer="robust", status={failed: "failed"}, id=f"{name}-again")
        for name in ("one", "two")
    ]
    until = stop(runs, asked, "accuracy(one-again) > accuracy(two-again) @ 95%")
    until.read(store)
    assert until.state.questions == 1
    capped = [
        add_run(store, name, asked, [1, 1, 1], scorer="robust", status={failed: "capped"}, id=f"{name}-capped")
        for name in ("one", "two")
    ]
    until = stop(capped, asked, "accuracy(one-capped) > accuracy(two-capped) @ 95%")
    until.read(store)
    assert until.state.questions == 3


@pytest.mark.parametrize(
    ("count", "ended", "most", "reason"),
    [(3, "the budget is used up", None, "the budget is used up"), (3, "", None, "all questions are answered"),
     (3, "", 2, "--max-questions is reached"), (40, "the budget is used up", None, "")],
)  # fmt: skip
def test_the_end_is_kept_with_its_reason_unless_it_is_decided(store, count, ended, most, reason):
    asked = questions(count)
    runs = pair(store, asked)
    until = stop(runs, asked, most=most)
    until.read(store)
    record = until.finish(store, ended)
    assert (record.reason, record.state) == (reason, until.state)
    assert record.state.decision == ("undecided" if reason else "holds")
    assert stop_records(store, runs[1]) == [record]


def ended_early(store, asked, answered, *, seed=3, decision="holds", values=(1.0, 0.0), **more):
    """Two runs that were followed, and answered the first so many questions of their order."""
    order = [question for one in draw_rounds(asked, seed) for question in one.questions][:answered]
    made = {
        name: [value if question in order else ... for question in asked]
        for name, value in zip(("one", "two"), values, strict=True)
    }
    runs = pair(store, asked, made["one"], made["two"], **more)
    until = stop(runs, asked, seed=seed)
    until.read(store)
    state = replace(until.state, decision=decision)
    save_stop(store, StopRecord(runs=tuple(run.id for run in runs), seed=seed, scorer="robust", state=state))
    return runs


def test_runs_that_ended_early_are_known_until_they_have_gone_on(store):
    asked = questions(8)
    runs = ended_early(store, asked, 5)
    assert set(early_stops(store, runs)) == {"one-run", "two-run"}
    assert early_stops(store, runs)["one-run"] == stop_records(store, runs[0])[-1]
    never = add_run(store, "never", asked, [1, *[...] * 7], scorer="robust")
    assert set(early_stops(store, [never, runs[1]])) == {"two-run"}
    assert early_stops(store, []) == {}


def test_runs_that_went_on_to_their_last_question_are_like_any_other(store):
    runs = ended_early(store, questions(4), 4)
    assert early_stops(store, runs) == {}
    assert len(stop_records(store, runs[0])) == 1
    assert compare(store, runs).tables[0].pairs[0].tests.p_mcnemar is not None


def test_an_epoch_that_is_out_leaves_a_run_early(store):
    asked = questions(2)
    run = add_run(store, "one", asked, [[1, 1], [1, ...]], epochs=2, scorer="robust")
    until = stop([run], asked, "accuracy(one) > 0.5 @ 95%")
    until.begin(store)
    assert set(early_stops(store, [run])) == {"one-run"}


def test_a_difference_of_such_runs_is_that_of_the_confidence_sequence(store):
    asked = questions(30)
    runs = ended_early(store, asked, 20)
    compared = compare(store, runs, common=True, group_by=["dataset"])
    (pair,) = compared.tables[0].pairs
    tests = pair.tests
    sequence = ConfidenceSequence(null=0.0)
    for _ in range(20):
        sequence.add(-1.0)  # the second less the first
    expected = sequence.interval
    assert (tests.low, tests.high, tests.p_always, tests.draws) == (expected.low, expected.high, expected.p, 20)
    assert (tests.p_mcnemar, tests.mde, pair.p_holm) == (None, None, None)
    assert (tests.difference, tests.n) == (-1.0, 20)
    assert compare(store, runs).tables[0].pairs[0].tests == tests  # what it was not asked is not wrong
    inside = compared.tables[0].groups[0].groups[0].pairs[0].tests
    assert (inside.low, inside.p_mcnemar) == (None, None)
    assert set(compared.stopped) == {"one-run", "two-run"}
    (verdict,) = check_claims(store, runs, [CLAIM])
    assert (verdict.decision, verdict.conditions[0].low) == ("holds", pytest.approx(-expected.high))
    (note,) = [note for note in compared.notes if "depends on the results" in note]
    assert note == (
        f"one-run, two-run: the number of questions depends on the results, because of --until {CLAIM!r}; it "
        "holds after 9 questions. Intervals of differences are valid at any number of questions (confidence "
        "sequences); tests for a fixed number are left out; the interval of a single score assumes a fixed number."
    )


def test_an_undecided_claim_is_noted_as_such(store):
    runs = ended_early(store, questions(8), 5, decision="undecided")
    (note,) = [note for note in compare(store, runs, common=True).notes if "depends on the results" in note]
    assert "it is undecided after 5 questions" in note


def test_one_early_run_beside_a_whole_one_is_enough(store):
    asked = questions(10)
    runs = ended_early(store, asked, 6)
    whole = add_run(store, "whole", asked, [1] * 10, scorer="robust")
    for both in ([runs[1], whole], [whole, runs[1]]):
        tests = compare(store, both, common=True).tables[0].pairs[0].tests
        assert (tests.draws, tests.p_mcnemar) == (6, None)
    (note,) = [note for note in compare(store, [runs[1], whole], common=True).notes if "depends on" in note]
    assert note.startswith("two-run: the number of questions depends on the results")
    other = add_run(store, "other", asked, [1] * 9 + [0], scorer="robust")
    assert compare(store, [whole, other]).tables[0].pairs[0].tests.draws is None


def test_a_draw_in_which_somebody_is_out_ends_what_counts(store):
    asked = questions(10)
    runs = ended_early(store, asked, 8)
    order = [question for one in draw_rounds(asked, 3) for question in one.questions]
    gap = add_run(
        store, "gap", asked, [... if question == order[3] else 1.0 for question in asked], scorer="robust"
    )  # fmt: skip
    tests = compare(store, [runs[0], gap], common=True).tables[0].pairs[0].tests
    assert (tests.n, tests.draws) == (7, 3)


def test_runs_in_orders_of_their_own_have_no_interval(store):
    asked = questions(10)
    runs = ended_early(store, asked, 6)
    third = add_run(store, "third", asked, [1.0] * 6 + [...] * 4, scorer="robust")
    state = stop_records(store, runs[0])[0].state
    save_stop(store, StopRecord(runs=("third-run",), seed=9, scorer="robust", state=state))
    tests = compare(store, [runs[0], third], common=True).tables[0].pairs[0].tests
    assert (tests.low, tests.high, tests.p_always, tests.p_mcnemar, tests.draws) == (None, None, None, None, 0)


def test_a_draw_without_a_score_is_left_out_of_the_difference(store):
    asked = questions(10)
    order = [question for one in draw_rounds(asked, 3) for question in one.questions]
    values = {order[n].id: value for n, value in enumerate([1.0, None, 1.0, 0.5])}
    first = [values.get(question.id, ...) for question in asked]
    second = [0.25 if question.id in values else ... for question in asked]
    runs = pair(store, asked, first, second)
    until = stop(runs, asked)
    until.read(store)
    assert (until.state.questions, until.state.conditions[0].missing) == (4, 1)
    until.finish(store, "")
    tests = compare(store, runs, common=True).tables[0].pairs[0].tests
    sequence = ConfidenceSequence(null=0.0)
    for value in (-0.75, -0.75, -0.25):
        sequence.add(value)
    expected = sequence.interval
    assert (tests.draws, tests.low, tests.high) == (3, expected.low, expected.high)
    (verdict,) = check_claims(store, runs, [CLAIM], common=True)
    (condition,) = verdict.conditions
    assert condition.value == pytest.approx(1.75 / 3)
    assert (condition.low, condition.high) == (pytest.approx(-expected.high), pytest.approx(-expected.low))
    assert (condition.level, condition.questions, verdict.decision) == (0.95, 4, "undecided")
    assert condition.reason == (
        "the number of questions depends on the results: the interval is always valid; 1 have no score and are left out"
    )


def test_duplicates_and_datasets_count_by_their_means(store):
    asked = [replace(one, cluster="twins") for one in questions(2, "x/a")] + questions(1, "x/b")
    asked += [replace(one, id=f"{one.id}-2") for one in questions(2, "x/a")] + questions(4, "x/b")[1:]
    rounds = draw_rounds(asked, 3)
    first = [1.0 if question.benchmark == "x/a" else 0.5 for question in asked]
    first[0] = 0.0
    inside = {question.id for one in rounds for question in one.questions}
    first = [value if question.id in inside else ... for question, value in zip(asked, first, strict=True)]
    runs = pair(store, asked, first, [0.0 if value is not ... else ... for value in first])
    until = stop(runs, asked)
    until.read(store)
    until.finish(store, "")
    tests = compare(store, runs, common=True).tables[0].pairs[0].tests
    sequence = ConfidenceSequence(null=0.0)
    for one in rounds:
        # Four questions of x/a are in three clusters, so a question weighs 3 / 4, the twins 3 / 2; x/b weighs 1.
        twins = any(question.cluster for question in one.questions)
        wrong_by, weight = (1.0, 2) if twins else (1.0, 1)
        largest = 2 * 0.75 + 1
        sequence.add(-(0.75 * wrong_by + 0.5) / largest, (0.75 * weight + 1) / largest)
    assert tests.draws == len(rounds) == 3
    assert (tests.low, tests.high) == pytest.approx((sequence.interval.low, sequence.interval.high))


def test_costs_of_such_runs_are_not_decided_with_confidence(store):
    runs = ended_early(store, questions(8), 5)
    claims = ["cost(one) < 1 @ 90%", "cost(one) < 1", "accuracy(one) > 0.5", "failed(one) < 0.1 @ 95%"]
    verdicts = check_claims(store, runs, claims, common=True)
    conditions = [verdict.conditions[0] for verdict in verdicts]
    assert [one.decision for one in conditions] == ["undecided", "holds", "holds", "undecided"]
    assert conditions[0].reason == "the number of questions depends on the results: no interval is valid"
    assert conditions[0].level == 0.9
    assert (conditions[2].value, conditions[2].questions, conditions[2].reason) == (1.0, 5, "")
    assert conditions[3].value == pytest.approx(0.0)
    assert conditions[3].reason.endswith("the interval is always valid")
    assert not math.isnan(conditions[3].low)


def test_a_run_against_itself_tells_nothing(store):
    runs = ended_early(store, questions(8), 5)
    for claim in ("accuracy(one) >= accuracy(one) @ 90%", "separated(two, two) @ 90%"):
        (verdict,) = check_claims(store, runs, [claim])
        (condition,) = verdict.conditions
        assert (condition.decision, condition.level) == ("undecided", 0.9)
        assert condition.reason == "it compares a run with itself"


def test_runs_of_different_questions_share_the_order_of_those_in_common(store):
    asked = questions(10)
    runs = ended_early(store, asked, 6)
    other = add_run(store, "other", asked[:9], [1] * 9, scorer="robust")
    order = [question for one in draw_rounds(asked[:9], 3) for question in one.questions]
    answered = {attempt.question_id for attempt in store.attempts(runs[0])}
    tests = compare(store, [runs[0], other], common=True).tables[0].pairs[0].tests
    expected = next((n for n, question in enumerate(order) if question.id not in answered), len(order))
    assert tests.draws == expected > 0


def test_claims_followed_with_several_seeds_are_kept_apart(store):
    runs = pair(store, questions(3))
    record = stop(runs, questions(3)).record()
    save_stop(store, record)
    save_stop(store, replace(record, reason="later"))
    save_stop(store, replace(record, seed=4))
    assert {(one.seed, one.reason) for one in stop_records(store, runs[0])} == {(3, "later"), (4, "")}


def test_scores_are_read_by_the_headline_and_outcomes_by_the_status(store):
    asked = questions(3)
    runs = pair(store, asked, status={0: "blocked"})
    for run in runs:
        for name in ("zzz", "aaa"):
            store.add_scores(run, [replace(score, scorer=name, value=0.5) for score in store.scores(run, "robust")])
    until = stop(runs, asked, "accuracy(one) > 0 @ 95% and blocked(two) > 0 @ 95%")
    until.read(store)
    first, second = until.state.conditions
    assert (first.value, second.value) == (1.0, pytest.approx(1 / 3))


def test_an_attempt_that_nobody_scored_is_not_correct(store):
    asked = questions(3)
    runs = empty(store, asked)
    until = stop(runs, asked)
    question = until.questions[0]
    for run in runs:
        made = Attempt(run=run.id, question_id=question.id, epoch=0, status="failed", text="")
        until.observe(FinishedAttempt(run, made, ()))
    assert (until.state.questions, until.state.conditions[0].value) == (1, 0.0)


def test_a_judged_figure_is_followed_over_the_questions_that_were_judged(store):
    asked = [replace(one, kind="long", options={}) for one in questions(6)]
    order = [question for one in draw_rounds(asked[:5], 3) for question in one.questions]
    values = {order[n].id: float(n % 2) for n in range(4)}
    runs = [
        add_run(store, name, asked, [side(values.get(one.id)) for one in asked], scorer="equivalent")
        for name, side in (("one", lambda v: ... if v is None else v), ("two", lambda v: ... if v is None else 1.0))
    ]
    state = LiveClaim(parse_claim("accuracy(one-run) > 0.5 @ 95%")).state
    for run in runs:
        save_stop(store, StopRecord(runs=(run.id,), seed=3, scorer="facts", state=state))
    tests = compare(store, runs, scorers=["equivalent"], common=True).tables[0].pairs[0].tests
    sequence = ConfidenceSequence(null=0.0)
    for n in range(4):
        sequence.add(1.0 - float(n % 2))
    assert (tests.draws, tests.low, tests.high) == (4, sequence.interval.low, sequence.interval.high)
