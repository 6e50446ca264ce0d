"""Comparisons against figures worked out by hand, and what is refused."""

import math

import msgspec
import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Call, Usage
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.figures import paired
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.scorers import all_scorers, described
from ragrounds.evals.scorers.judged import JudgedScorer
from ragrounds.evals.stats import minimum_detectable_effect, paired_difference
from ragrounds.ui.tables.comparison_tables import group_table
from tests.compare.making import add_run, add_runs, add_scores, questions


def test_two_runs_by_hand(store):
    asked = questions(10)
    first = add_run(store, "one", asked, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], cost_uncached=0.02)
    second = add_run(store, "two", asked, [1, 1, 1, 0, 1, 1, 1, 1, 0, 0], cost_uncached=0.05)
    found = compare(store, [first, second])
    table = found.tables[0]
    assert [line.overall.value for line in table.lines] == [0.4, 0.7]
    assert table.lines[0].overall.error == pytest.approx(math.sqrt(0.4 * 0.6 / 10))
    tests = table.pairs[0].tests
    assert tests.difference == pytest.approx(0.3)
    assert (tests.first_only, tests.second_only) == (1, 4)
    # Exact McNemar: 1 of 5 or further out, on both sides: 2 (C(5,0) + C(5,1)) / 2^5.
    assert tests.p_mcnemar == pytest.approx(2 * 6 / 32)
    assert tests.mde == pytest.approx(minimum_detectable_effect(10, 0.5))
    assert table.pairs[0].p_holm == pytest.approx(tests.p_mcnemar)
    assert tests.low < 0.3 < tests.high
    assert [row.cost_uncached for row in found.rows] == [pytest.approx(0.2), pytest.approx(0.5)]
    assert found.rows[0].usage == Usage(sum(100 * (i + 1) for i in range(10)), 100)
    assert found.rows[0].seconds == 0.5


def test_epochs_of_a_question_are_tested_together():
    asked = questions(6)
    half, right = ({question.id: value for question in asked} for value in (0.5, 1.0))
    tests = paired(asked, half, right, 0, described("robust"), epochs=2)
    assert tests.p_mcnemar == pytest.approx(2 / 2**6)  # twelve attempts, six questions
    assert tests.leaves_out_0
    assert (tests.first_only, tests.second_only, tests.mde) == (None, None, None)


def test_datasets_are_averaged_without_weights(store):
    asked = questions(2, "x/small") + questions(8, "x/large")
    run = add_run(store, "one", asked, [1, 1, *[0] * 6, 1, 1])
    line = compare(store, [run]).tables[0].lines[0]
    assert {name: figure.value for name, figure in line.datasets.items()} == {"x/small": 1.0, "x/large": 0.25}
    assert line.overall.value == pytest.approx((1.0 + 0.25) / 2)
    assert line.overall.error == pytest.approx(math.sqrt(0.25 * 0.75 / 8) / 2)


def test_every_question_counts_and_open_attempts_bound_the_accuracy(store):
    asked = questions(4)
    run = add_run(store, "one", asked, [1, 0, ..., 0], status={1: "failed"}, answer_statuses={1: "empty"})
    found = compare(store, [run])
    line = found.tables[0].lines[0]
    assert line.overall.value == 0.25
    assert line.overall.best == 0.75
    assert line.outcomes == {"answered": 2, "failed": 1, "not_run": 1}
    assert found.rows[0].statuses == {"completed": 2, "failed": 1, "not_run": 1}
    assert any("1 attempts still to be made" in note for note in found.notes)


def test_a_missing_score_is_in_no_mean(store):
    asked = questions(4)
    run = add_run(store, "one", asked, [1, None, 0, "unscored"])
    found = compare(store, [run])
    figure = found.tables[0].lines[0].overall
    assert (figure.value, figure.n, figure.missing) == (0.5, 2, 2)
    assert found.tables[0].lines[0].outcomes == {"answered": 4}
    other = add_run(store, "two", asked, [1, 1, 1, 1])
    found = compare(store, [run, other])
    figure = found.tables[0].lines[0].overall
    assert (figure.value, figure.n, figure.missing) == (0.5, 2, 2)
    assert found.tables[0].pairs[0].tests.n == 2
    assert any("1 answer without a score" in note for note in found.notes)


@pytest.mark.parametrize("scorer", ["strict", "mirage-pmc-llama"])
def test_questions_that_nobody_has_come_to_are_in_the_denominator(store, scorer):
    run = add_run(store, "one", questions(4), [1, 1, ..., ...], scorer=scorer)
    line = compare(store, [run]).tables[0].lines[0]
    assert (line.overall.value, line.overall.n, line.overall.best) == (0.5, 4, 1.0)


def test_epochs_are_averaged_inside_a_question(store):
    asked = questions(2)
    run = add_run(store, "one", asked, [[1, 0], [1, 1]], epochs=2)
    figure = compare(store, [run]).tables[0].lines[0].overall
    assert (figure.value, figure.n) == (0.75, 2)
    assert figure.error is None  # no p(1-p) of scores that are not right-or-wrong


def test_an_epoch_that_was_not_answered_counts_as_wrong(store):
    run = add_run(
        store,
        "one",
        questions(3),
        [[1, ...], [1, 1], ["unscored", "unscored"]],
        epochs=2,
        status={2: "failed"},
        answer_statuses={2: "empty"},
    )
    line = compare(store, [run]).tables[0].lines[0]
    # The mean over all epochs of all questions, (1/2 + 1 + 0) / 3, and not over what was answered.
    assert (line.overall.value, line.overall.n, line.overall.missing) == (pytest.approx(0.5), 3, 0)
    assert line.overall.best == pytest.approx((1 + 1 + 1) / 3)


def test_a_paired_difference_draws_duplicates_together(store):
    # Four clusters of ten duplicates; the second run is better on three of them, worse on one.
    asked = [question for name in "abcd" for question in questions(10, f"x/{name}", cluster=name)]
    asked = [msgspec.structs.replace(question, benchmark="x/one") for question in asked]
    first = add_run(store, "one", asked, [0] * 30 + [1] * 10)
    second = add_run(store, "two", asked, [1] * 30 + [0] * 10)
    tests = compare(store, [first, second]).tables[0].pairs[0].tests
    # Duplicates that all go one way say as much as four questions.
    alone = paired_difference([0, 0, 0, 1], [1, 1, 1, 0])
    assert (tests.difference, tests.low, tests.high) == pytest.approx((0.5, alone.low, alone.high))
    assert tests.p_mcnemar == pytest.approx(10 / 16)  # of four
    assert tests.second_only == 30


def test_holm_corrects_over_all_pairs(store):
    asked = questions(12)
    runs = add_runs(store, asked, one=[0] * 12, two=[1] * 6 + [0] * 6, three=[1] * 12)
    pairs = compare(store, runs).tables[0].pairs
    raw = [pair.tests.p_mcnemar for pair in pairs]
    assert raw == [pytest.approx(2 / 2**6), pytest.approx(2 / 2**12), pytest.approx(2 / 2**6)]
    assert [pair.p_holm for pair in pairs] == [
        pytest.approx(2 * 2 / 2**6),
        pytest.approx(3 * 2 / 2**12),
        pytest.approx(2 * 2 / 2**6),
    ]


def test_judging_costs_what_was_paid_for_it(store):
    run = add_run(store, "one", questions(2), [1, 0])
    calls = [
        Call(key=f"{number:064x}", kind="model", role="judging", node="judge", actor="openai:m", at=0.0, seconds=1.0,
             usage=Usage(10, 1), cost_uncached=dollars, cached=cached)
        for number, (dollars, cached) in enumerate([(0.1, True), (0.3, False)])
    ]  # fmt: skip
    store.add_scores(run, [], calls)
    (row,) = compare(store, [run]).rows
    assert (row.judging_calls, row.cost_judging) == (2, 0.3)


def test_unknown_cost_and_usage_stay_unknown(store):
    asked = questions(2)
    run = add_run(store, "one", asked, [1, 0], cost_uncached=[0.1, None], origin="imported")
    row = compare(store, [run]).rows[0]
    assert row.cost_uncached is None
    assert row.seconds is None


class TestRefusals:
    def test_other_questions(self, store):
        first = add_run(store, "one", questions(4), [1, 1, 0, 0])
        second = add_run(store, "two", questions(6)[2:], [1, 0, 1, 1])
        with pytest.raises(UserError, match=r"different questions.*`common=True`"):
            compare(store, [first, second])
        found = compare(store, [first, second], common=True)
        assert found.questions == 2
        assert [line.overall.value for line in found.tables[0].lines] == [0.0, 0.5]
        assert "2 questions that all runs have" in found.notes[0]

    def test_the_same_id_with_other_content_is_not_common(self, store):
        asked = questions(3)
        changed = [msgspec.structs.replace(asked[0], text="Something else?"), *asked[1:]]
        first = add_run(store, "one", asked, [1, 1, 0])
        second = add_run(store, "two", changed, [1, 0, 1])
        found = compare(store, [first, second], common=True)
        assert found.questions == 2
        assert any("a different text or answer" in note for note in found.notes)

    def test_nothing_in_common(self, store):
        first = add_run(store, "one", questions(2), [1, 1])
        second = add_run(store, "two", questions(2, "y/other"), [1, 1])
        with pytest.raises(UserError, match="no question in common"):
            compare(store, [first, second], common=True)

    def test_other_epochs(self, store):
        asked = questions(2)
        first = add_run(store, "one", asked, [[1, 0], [0, 0]], epochs=2)
        second = add_run(store, "two", asked, [1, 1])
        with pytest.raises(UserError, match="epochs: one-run: 2; two-run: 1"):
            compare(store, [first, second])
        found = compare(store, [first, second], common=True)
        assert found.epochs == 1
        assert [line.overall.value for line in found.tables[0].lines] == [0.5, 1.0]
        assert found.rows[0].model_calls == 2

    def test_scores_that_are_missing_are_made_by_the_command_that_is_named(self, store):
        def refused(scorer, *wanted):
            asked = questions(2, f"x/{scorer}")
            first = add_run(store, f"one-{scorer}", asked, [1, 0], scorer=scorer)
            second = add_run(store, f"two-{scorer}", asked, [1, 1], scorer="rouge-l")
            with pytest.raises(UserError) as raised:
                compare(store, [first, second], scorers=wanted)
            return str(raised.value)

        judged = "`ragrounds judge two-{}-run --kind {} --judge MODEL"
        judged_by = {name: made.judging for name, made in all_scorers().items() if isinstance(made, JudgedScorer)}
        assert judged_by
        for scorer, kind in judged_by.items():
            told = refused(scorer)
            assert judged.format(scorer, kind) in told
            assert ("--judge MODEL --embedder EMBEDDER`" in told) == scorer.endswith(
                ("answer_relevancy", "answer-relevancy")
            )
        assert "`ragrounds score two-strict-run --scorer strict` computes them" in refused("strict")
        nobody = refused("facts", "equivalent")
        assert "`ragrounds judge one-facts-run two-facts-run --kind equivalence --judge MODEL` makes them" in nobody

    def test_every_kind_of_judging_is_known(self):
        judged = {name: made for name, made in all_scorers().items() if isinstance(made, JudgedScorer)}
        methods = judge_methods()
        assert {made.judging for made in judged.values()} | {"ragas"} == set(methods)
        for name, scorer in judged.items():
            assert name in {one.name for one in methods[scorer.judging].scorers}
        assert len(methods["ragas"].scorers) == 5

    def test_other_scorers(self, store):
        asked = questions(2)
        first = add_run(store, "one", asked, [1, 0], scorer="strict")
        second = add_run(store, "two", asked, [1, 1], scorer="robust")
        with pytest.raises(UserError, match="scored by different scorers: two-run"):
            compare(store, [first, second])
        with pytest.raises(UserError, match="no scorer in common"):
            compare(store, [first, second], common=True)
        add_scores(store, first, "robust", {question.id: 1.0 for question in asked})
        found = compare(store, [first, second], common=True)
        assert [table.scorer for table in found.tables] == ["robust"]
        with pytest.raises(UserError, match="no scores under 'strict'"):
            compare(store, [first, second], scorers=["strict"])

    def test_a_scorer_next_to_the_headline_is_left_out_where_a_run_lacks_it(self, store):
        first, second = (add_run(store, name, questions(2), [1, 0], scorer="robust") for name in ("one", "two"))
        add_scores(store, first, "strict", {question.id: 1.0 for question in questions(2)})
        found = compare(store, [first, second])
        assert [table.scorer for table in found.tables] == ["robust"]
        assert "Not compared under strict: two-run has no scores by it." in found.notes

    def test_a_run_that_has_not_begun_lacks_no_scorer(self, store):
        asked = questions(2)
        first = add_run(store, "one", asked, [1, 0])
        second = add_run(store, "two", asked, [..., ...])
        assert [line.overall.value for line in compare(store, [first, second]).tables[0].lines] == [0.5, 0.0]

    def test_a_run_twice_and_an_unknown_scorer(self, store):
        run = add_run(store, "one", questions(2), [1, 0])
        with pytest.raises(UserError, match="given twice"):
            compare(store, [run, run])
        with pytest.raises(UserError, match="'nonsense'"):
            compare(store, [run], scorers=["nonsense"])
        with pytest.raises(UserError, match="No run was given"):
            compare(store, [])


class TestGroups:
    def test_by_subject(self, store):
        asked = questions(3, "x/a", group="heart") + questions(2, "x/b", group="lung") + questions(1, "x/c")
        first = add_run(store, "one", asked, [1, 0, 0, 1, 1, 0])
        second = add_run(store, "two", asked, [1, 1, 1, 0, 1, 0])
        table = compare(store, [first, second], group_by=["subject"]).tables[0].groups[0]
        assert [(group.name, group.questions) for group in table.groups] == [("heart", 3), ("lung", 2), ("(none)", 1)]
        assert table.groups[0].figures[first.id].value == pytest.approx(1 / 3)
        assert table.groups[0].pairs[0].tests.difference == pytest.approx(2 / 3)
        named = compare(store, [first, second], group_by=["group"]).tables[0].groups[0]  # as a question's line has it
        assert [group.name for group in named.groups] == ["heart", "lung", "(none)"]

    def test_a_group_costs_what_its_own_questions_cost(self, store):
        asked = questions(2, "x/a", group="heart") + questions(2, "x/b", group="lung")
        run = add_run(store, "one", asked, [1, 0, 1, 1], cost_uncached=[0.01, 0.03, 0.5, None])
        table = compare(store, [run], group_by=["subject"]).tables[0]
        shown = group_table(table, table.groups[0], {run.id: "one"})
        assert [column.name for column in shown.columns][3:] == ["$/100 one", "tokens one"]
        # A price that is not known is in no mean of the others: the group's cost is unknown.
        assert [row[3:] for row in shown.rows] == [("$2.00", "160"), ("unknown", "360")]

    def test_by_metadata_and_what_is_unknown(self, store):
        asked = questions(2, metadata={"year": "2020"})
        run = add_run(store, "one", asked, [1, 0])
        assert compare(store, [run], group_by=["year"]).tables[0].groups[0].groups[0].name == "2020"
        with pytest.raises(UserError, match=r"'yaer'.*Did you mean 'year'"):
            compare(store, [run], group_by=["yaer"])
        with pytest.raises(UserError, match="None of these questions has a subject"):
            compare(store, [run], group_by=["subject"])
