"""What a claim's text means, and what is said where it cannot be read: word for word."""

from contextlib import suppress
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.claims.claims import Condition, Term, all_hold, decide, parse_claim, resolved
from ragrounds.evals.compare.frontier import CLAIMED_COSTS
from ragrounds.evals.store.run_names import run_among
from ragrounds.evals.trace.filter_fields import BOUNDED_MEASURES, FIELDS, MEASURES


def one(text):
    (condition,) = parse_claim(text).conditions
    return condition


def run(agent, id):
    return Run(
        id=id, agent=agent, benchmark="x", questions="q", count=1, epochs=1, fingerprint=id, identity={}, created=1.0
    )


@pytest.mark.parametrize(
    ("relation", "below", "at", "above"),
    [
        (">", "fails", "fails", "holds"),
        (">=", "fails", "holds", "holds"),
        ("<", "holds", "fails", "fails"),
        ("<=", "holds", "holds", "fails"),
    ],
)
def test_a_value_at_the_border(relation, below, at, above):
    point = Condition(terms=(), constant=0.0, relation=relation)
    assert [decide(point, value, None, None) for value in (-0.1, 0.0, 0.1)] == [below, at, above]
    # An interval on one side decides like its values, one over the border not.
    asked = Condition(terms=(), constant=0.0, relation=relation, level=0.95)
    assert decide(asked, 9.0, -0.2, -0.1) == below
    assert decide(asked, -9.0, 0.1, 0.2) == above
    assert decide(asked, 0.0, -0.1, 0.1) == "undecided"
    assert decide(asked, 0.0, 0.0, 0.0) == at
    assert decide(asked, 0.1, None, 0.2) == decide(asked, 0.1, 0.1, None) == "undecided"


def test_decisions_joined():
    assert all_hold([]) == "holds"
    assert all_hold(["undecided", "holds"]) == "undecided"
    assert all_hold(["holds", "fails", "undecided"]) == "fails"


@pytest.mark.parametrize(
    ("text", "terms", "constant"),
    [
        ("accuracy(a) > .5", [(1.0, "accuracy", "a")], -0.5),
        ("accuracy(a) > 5.", [(1.0, "accuracy", "a")], -5.0),
        ("accuracy(a) > 1.5e1", [(1.0, "accuracy", "a")], -15.0),
        ("accuracy(a) > 25E-2", [(1.0, "accuracy", "a")], -0.25),
        ("accuracy(a) > 2.5 %", [(1.0, "accuracy", "a")], -0.025),
        ("-accuracy(a) > 0", [(-1.0, "accuracy", "a")], 0.0),
        ("+ accuracy(a) > 0", [(1.0, "accuracy", "a")], 0.0),
        ("- 2 * cost(a) - 3 + 0.5*tokens(b) > 1", [(-2.0, "cost", "a"), (0.5, "tokens", "b")], -4.0),
        ("50% * failed(a) + 1 > -1 - model_calls(b)", [(0.5, "failed", "a"), (1.0, "model_calls", "b")], 2.0),
        ("1 - 2 - 3 < seconds(a) + 4", [(-1.0, "seconds", "a")], -8.0),
    ],
)
def test_sums(text, terms, constant):
    condition = one(text)
    assert condition.terms == tuple(Term(*term) for term in terms)
    assert condition.constant == pytest.approx(constant)
    assert condition.level is None
    assert not condition.apart


def test_relations_and_levels():
    for sign in (">", ">=", "<", "<="):
        assert one(f"accuracy(a){sign}accuracy(b)").relation == sign
    assert one("accuracy(a) > 0 @ 50%").level == 0.5
    assert one("accuracy(a) > 0 @ .99").level == 0.99
    apart = one("separated( a , b[k=1] ) @ 0.9")
    assert apart == Condition(
        terms=(Term(1.0, "score", "a"), Term(-1.0, "score", "b[k=1]")), constant=0.0, relation=">", level=0.9,
        apart=True,
    )  # fmt: skip
    both = parse_claim("accuracy(a) > 0 @ 90% and separated(a, b) and cost(a) < 1")
    assert both.text == "accuracy(a) > 0 @ 90% and separated(a, b) and cost(a) < 1"
    assert [(condition.level, condition.apart) for condition in both.conditions] == [
        (0.9, False), (0.95, True), (None, False),
    ]  # fmt: skip
    assert parse_claim("accuracy(a) > 0 @ 90% AND Separated(a, b) And cost(a) < 1").conditions == both.conditions


@pytest.mark.parametrize(
    "reference",
    ["a[b=[1,2],c=(3,4)]", 'a[x="]"]', r'a[x="\")]"]', "a[m=x:y[t=0]]", "a(b)", "a b", "é", "a[x=1],[y=2]"[:6]],
)
def test_a_reference_ends_where_its_own_brackets_do(reference):
    assert one(f"separated({reference}, z)").terms[0].run == reference
    assert one(f"separated(z,{reference} )").terms[1].run == reference
    assert one(f"accuracy( {reference} ) > 0").terms == (Term(1.0, "accuracy", reference),)


@pytest.mark.parametrize(
    ("text", "expected", "place", "found"),
    [
        ("accuracy(a) > 0.5 or accuracy(b) > 1", "'@', 'and' or the end", 18, "'or accuracy('"),
        ("accuracy(a)", "'>', '>=', '<' or '<='", 11, "the end"),
        ("accuracy(a)  ", "'>', '>=', '<' or '<='", 13, "the end"),
        ("accuracy(a) 0.5", "'>', '>=', '<' or '<='", 12, "'0.5'"),
        ("accuracy a > 0", "'('", 9, "'a > 0'"),
        ("accuracy(a > 0", "a run and ')'", 9, "'a > 0'"),
        ("accuracy( ) > 0", "a run and ')'", 10, "') > 0'"),
        ("accuracy(a, b) > 0", "')'", 10, "', b) > 0'"),
        ("separated(a b)", "','", 13, "')'"),
        ("separated(a,  )", "a run and ')'", 14, "')'"),
        ("separated(a, b, c)", "')'", 14, "', c)'"),
        ("separated a", "'('", 10, "'a'"),
        ("accuracy(a) > 0.5 @ 49%", "a confidence from 50% to below 100%, such as 95%", 20, "'49%'"),
        ("accuracy(a) > 0.5 @  1", "a confidence from 50% to below 100%, such as 95%", 21, "'1'"),
        ("accuracy(a) > 0.5 @", "a confidence from 50% to below 100%, such as 95%", 19, "the end"),
        ("accuracy(a) > 1e999", "a number that is finite", 14, "'1e999'"),
        ("", "a number, or a measure such as accuracy(RUN)", 0, "the end"),
        ("accuracy(a) > ,", "a number, or a measure such as accuracy(RUN)", 14, "','"),
        ("2 * 3 > accuracy(a)", "a number, or a measure such as accuracy(RUN)", 4, "'3 > accuracy'"),
        ("accuracy(a) + > 1", "a number, or a measure such as accuracy(RUN)", 14, "'> 1'"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text, expected, place, found):
    with pytest.raises(UserError) as caught:
        parse_claim(text)
    assert str(caught.value) == (
        f"Cannot read the claim {text!r}: expected {expected} at position {place}, found {found}."
    )


def test_unknown_measures_and_claims_without_a_run():
    with pytest.raises(UserError) as caught:
        parse_claim("acuracy(a) > 1")
    assert str(caught.value) == (
        "Cannot read the claim 'acuracy(a) > 1': unknown measure 'acuracy'. Did you mean 'accuracy'? Known: "
        f"{', '.join(MEASURES)}; separated(RUN, RUN) takes no comparison."
    )
    with pytest.raises(UserError) as caught:
        parse_claim("1 > 0.5")
    assert str(caught.value) == "The claim '1 > 0.5' has no run: write, for example, accuracy(RUN) > 0.5."


def test_every_measure_is_read():
    for measure in MEASURES:
        assert one(f"{measure}(a) > 0").terms == (Term(1.0, measure, "a"),)


def test_a_measure_is_a_field_of_the_filter_and_either_bounded_or_a_cost():
    assert set(MEASURES.values()) <= set(FIELDS)
    assert set(BOUNDED_MEASURES).isdisjoint(CLAIMED_COSTS)
    assert set(MEASURES) == {*BOUNDED_MEASURES, *CLAIMED_COSTS}


RUNS = [run("rag[k=1]", "rag-1"), run("rag[k=8]", "rag-8"), run("direct", "direct-5"), run("direct-5", "other-7")]
RUNS += [run("cot[queries=20,x=[1]]", "zz-9")]


@pytest.mark.parametrize(
    ("reference", "id"),
    [
        ("rag-1", "rag-1"),
        ("direct-5", "direct-5"),  # an id comes before an agent's text
        ("rag[k=8]", "rag-8"),
        ("rag[ k = 8 ]", "rag-8"),
        ("direct", "direct-5"),  # an agent's text before the beginning of an id
        ("oth", "other-7"),
        ("cot", "zz-9"),
    ],
)
def test_a_run_is_named_in_one_of_four_ways(reference, id):
    assert run_among(reference, RUNS, "claim").id == id


def test_a_run_is_named_by_what_it_is_called_too():
    claim = resolved(parse_claim("accuracy(new) - accuracy(old) > -90%"), RUNS, {"rag-8": "new", "rag-1": "old"})
    assert [term.run for term in claim.conditions[0].terms] == ["rag-8", "rag-1"]
    with pytest.raises(UserError, match=r"shown \(old, new, direct-5, other-7, zz-9\)\. Did you mean 'new'\?"):
        run_among("neww", RUNS, "claim", {"rag-8": "new", "rag-1": "old"})


def test_a_run_that_is_named_badly_is_said_with_those_that_fit():
    with pytest.raises(UserError) as caught:
        run_among("rag", RUNS, "claim")
    assert str(caught.value) == "claim 'rag' matches several of the runs: rag-1, rag-8. Give an id."
    with pytest.raises(UserError) as caught:
        run_among("rag-", RUNS, "claim")
    assert str(caught.value) == "claim 'rag-' matches several of the runs: rag-1, rag-8. Give an id."
    with pytest.raises(UserError) as caught:
        run_among("zzzzzz", RUNS, "claim")
    assert str(caught.value) == "claim 'zzzzzz' matches none of the runs shown (rag-1, rag-8, direct-5, other-7, zz-9)."
    with pytest.raises(UserError, match=r"Did you mean 'other-7'\?$"):
        run_among("ather-7", RUNS, "claim")
    with pytest.raises(UserError, match=r"Did you mean 'rag\[k=1\]' or 'rag\[k=8\]'\?$"):
        run_among("rog[k=1]", RUNS, "claim")


def test_resolved_names_every_run_by_its_id_and_changes_nothing_else():
    claim = parse_claim("2 * accuracy(rag[k=1]) - 0.1 > accuracy(direct) @ 90% and separated(rag[k=8], oth)")
    found = resolved(claim, RUNS)
    assert found.text == claim.text
    first, second = found.conditions
    assert first.terms == (Term(2.0, "accuracy", "rag-1"), Term(-1.0, "accuracy", "direct-5"))
    assert (first.constant, first.relation, first.level) == (-0.1, ">", 0.9)
    assert [term.run for term in second.terms] == ["rag-8", "other-7"]
    assert second.apart


def test_an_interval_that_touches_zero_separates_nothing():
    apart = Condition(terms=(), constant=0.0, relation=">", level=0.95, apart=True)
    assert decide(apart, -0.1, -0.2, -0.05) == "holds"
    assert decide(apart, 0.1, 0.0, 0.2) == "undecided"
    assert decide(apart, -0.1, -0.2, 0.0) == "undecided"


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
