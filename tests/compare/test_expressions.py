"""The language of claims: what it reads, what it refuses, how it decides."""

from contextlib import suppress
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.errors import UserError
from ragrounds.evals.compare.assertions import check_claims
from ragrounds.evals.compare.claims import Condition, Term, all_hold, decide, parse_claim
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store.run_names import run_among
from tests.compare.making import add_run, questions


def one(text):
    (condition,) = parse_claim(text).conditions
    return condition


def test_the_example_of_the_manual():
    condition = one("accuracy(search_o1) - accuracy(vanilla_rag) > 0.02 @ 95%")
    assert condition.terms == (Term(1.0, "accuracy", "search_o1"), Term(-1.0, "accuracy", "vanilla_rag"))
    assert (condition.constant, condition.relation, condition.level) == (-0.02, ">", 0.95)


def test_specs_with_brackets_and_commas_are_one_run():
    condition = one('separated(vanilla_rag[top_k=8,note="a, b)"], search_o1[model=x:y[t=0]]) @ 90 %')
    assert [term.run for term in condition.terms] == ['vanilla_rag[top_k=8,note="a, b)"]', "search_o1[model=x:y[t=0]]"]
    assert condition.apart
    assert condition.level == pytest.approx(0.9)


def test_sums_factors_percents_and_conjunctions():
    claim = parse_claim("2*cost(a) + 1% <= cost(b) and failed(a) < 1e-2")
    first, second = claim.conditions
    assert first.terms == (Term(2.0, "cost", "a"), Term(-1.0, "cost", "b"))
    assert (first.constant, first.relation, first.level) == (0.01, "<=", None)
    assert (second.terms, second.constant) == ((Term(1.0, "failed", "a"),), -0.01)
    assert one("0.5 < accuracy(a)").terms == (Term(-1.0, "accuracy", "a"),)
    assert one("separated(a, b)").level == 0.95


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a measure such as"),
        ("accuracy(a)", "expected '>'"),
        ("accuracy(a > 1", "expected a run and"),
        ("accuracy() > 1", "expected a run and"),
        ("acuracy(a) > 1", "Did you mean 'accuracy'"),
        ("accuracy(a) > 0.5 @ 95", "expected a confidence"),
        ("accuracy(a) > 1e400", "a number that is finite at position 14"),
        ("accuracy(a) > 0.5 @ 100%", "expected a confidence"),
        ("accuracy(a) > 0.5 or accuracy(b) > 1", "'and' or the end at position 18"),
        ("0.1 > 0.2", "names no run"),
        ("separated(a)", "expected"),
        ("accuracy(a) > 0.5 @ 95% nonsense", "found 'nonsense'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(text, told):
    with pytest.raises(UserError, match="claim") as caught:
        parse_claim(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("relation", "interval", "decision"),
    [
        (">", (0.1, 0.2), "holds"),
        (">", (-0.1, 0.2), "cannot tell"),
        (">", (0.0, 0.2), "cannot tell"),
        (">", (-0.2, 0.0), "fails"),
        (">=", (0.0, 0.2), "holds"),
        ("<", (-0.2, -0.1), "holds"),
        ("<", (0.1, 0.2), "fails"),
        ("<", (None, None), "cannot tell"),
    ],
)
def test_decisions(relation, interval, decision):
    condition = Condition(terms=(), constant=0.0, relation=relation, level=0.95)
    assert decide(condition, 0.05, *interval) == decision


def test_without_a_level_the_estimate_decides_and_separation_never_fails():
    point = Condition(terms=(), constant=0.0, relation=">")
    assert decide(point, 0.05, -1.0, 1.0) == "holds"
    assert decide(point, -0.05, -1.0, 1.0) == "fails"
    apart = Condition(terms=(), constant=0.0, relation=">", level=0.95, apart=True)
    assert decide(apart, -0.1, -0.2, -0.05) == "holds"
    assert decide(apart, 0.0, -0.2, 0.2) == "cannot tell"
    assert all_hold(["holds", "cannot tell"]) == "cannot tell"
    assert all_hold(["cannot tell", "fails"]) == "fails"
    assert all_hold(["holds", "holds"]) == "holds"


def test_an_interval_that_touches_zero_separates_nothing(store):
    apart = Condition(terms=(), constant=0.0, relation=">", level=0.95, apart=True)
    assert decide(apart, 0.1, 0.0, 0.2) == "cannot tell"
    assert decide(apart, -0.1, -0.2, 0.0) == "cannot tell"
    asked = questions(20)
    first = add_run(store, "one", asked, [0] * 20)
    second = add_run(store, "two", asked, [1] + [0] * 19)
    tests = compare(store, [first, second]).tables[0].pairs[0].tests
    assert tests.low < 0 < tests.high
    for claim in ("separated(one, two) @ 95%", "separated(two, one) @ 95%"):
        assert check_claims(store, [first, second], [claim])[0].decision == "cannot tell"


def test_a_difference_is_judged_by_the_interval_of_the_tables(store):
    asked = questions(40)
    first = add_run(store, "one", asked, [1] * 10 + [0] * 30)
    second = add_run(store, "two", asked, [1] * 8 + [0] * 2 + [1] * 20 + [0] * 10)
    tests = compare(store, [first, second]).tables[0].pairs[0].tests
    (judged,) = check_claims(store, [first, second], ["accuracy(two) - accuracy(one) > 0.02 @ 95%"])
    (condition,) = judged.conditions
    assert judged.decision == "holds"
    assert condition.value == pytest.approx(tests.difference)
    assert (condition.low, condition.high) == (pytest.approx(tests.low), pytest.approx(tests.high))
    (judged,) = check_claims(store, [first, second], ["accuracy(one) > accuracy(two) @ 95%"])
    assert judged.decision == "fails"
    (judged,) = check_claims(store, [first, second], ["accuracy(two) - accuracy(one) > 45% @ 95%"])
    assert judged.decision == "cannot tell"


def test_the_accuracy_of_one_run_is_judged_by_the_tables_interval(store):
    run = add_run(store, "one", questions(20), [1] * 20)
    figure = compare(store, [run]).tables[0].lines[0].overall
    (judged,) = check_claims(store, [run], ["accuracy(one) > 0.7 @ 95%"])
    (condition,) = judged.conditions
    assert condition.low == pytest.approx(figure.low)
    assert check_claims(store, [run], ["accuracy(one) > 0.9 @ 95%"])[0].decision == "cannot tell"


def test_a_few_equal_answers_prove_nothing(store):
    few, many = questions(3), questions(400, "x/many")
    runs = [add_run(store, name, few, [1, 0, 1]) for name in ("one", "two")]
    claim = "accuracy(one) - accuracy(two) > -0.1 @ 95%"
    assert check_claims(store, runs, [claim])[0].decision == "cannot tell"
    runs = [add_run(store, name, many, [1, 0] * 200) for name in ("three", "four")]
    assert check_claims(store, runs, ["accuracy(three) - accuracy(four) > -0.1 @ 95%"])[0].decision == "holds"


def test_costs_and_outcomes(store):
    asked = questions(4)
    run = add_run(store, "one", asked, [1, 0, 0, 1], status={1: "failed"}, cost_uncached=0.2)
    other = add_run(store, "two", asked, [1, 0, 0, 1], cost_uncached=[None, 1, 1, 1])
    assert check_claims(store, [run, other], ["failed(one) <= 25% and cost(one) < 0.21"])[0].decision == "holds"
    (judged,) = check_claims(store, [run, other], ["cost(two) < 10"])
    assert judged.decision == "cannot tell"
    assert "cost of two-run is not known" in judged.conditions[0].reason


def test_runs_are_named_by_id_agent_or_name(store):
    asked = questions(1)
    runs = [add_run(store, name, asked, [1]) for name in ("rag[k=1]", "rag[k=8]", "direct")]
    assert run_among("direct", runs, "claim").agent == "direct"
    assert run_among("rag[ k=8 ]", runs, "claim").agent == "rag[k=8]"
    assert run_among("rag[k=1]-r", runs, "claim").agent == "rag[k=1]"
    with pytest.raises(UserError, match="names several of the runs"):
        run_among("rag", runs, "claim")
    with pytest.raises(UserError, match=r"names none of the runs that are shown\. Did you mean"):
        run_among("dirrect", runs, "claim")


@given(
    st.lists(
        st.sampled_from(
            ["accuracy", "cost", "separated", "and", "(", ")", "[", "]", ",", "@", "95%", "0.5", "2", "*", "+", "-",
             ">", "<=", "a", "rag[k=8]", '"', "%", " ", "é", "\n", "1e400"]
        ),
        max_size=14,
    ).map("".join)
)  # fmt: skip
def test_any_text_is_read_or_refused_in_one_line(text):
    with suppress(UserError):
        claim = parse_claim(text)
        assert claim.conditions
        assert all(condition.terms and isfinite(condition.constant) for condition in claim.conditions)
