"""Sums of what calls took: unknown values, lower bounds, and the order of parts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ragrounds.base.records import Attempt, Call, Fault
from ragrounds.base.spent import Spent, Usage, known_sum, total_spent

counts = st.integers(0, 10**9)
exact = st.integers(0, 2**20).map(lambda number: number / 1024)
"""Numbers whose sums a float holds exactly, so that sums in any order and grouping are equal."""
rounded = st.floats(0, 1e6)


def spent(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Spent]:
    """Spent of any kind, in which each value but the counts and the seconds may be unknown."""
    return st.builds(
        Spent,
        calls=counts,
        usage=st.none() | st.builds(Usage, counts, counts, counts, counts),
        cost_paid=st.none() | numbers,
        cost_uncached=st.none() | numbers,
        seconds=numbers,
        unanswered=st.integers(0, 5),
    )


@given(spent(exact), spent(exact), spent(exact))
def test_parts_can_be_added_in_any_order_and_grouping(first: Spent, second: Spent, third: Spent) -> None:
    assert (first + second) + third == first + (second + third) == total_spent([third, first, second])
    assert first + second == second + first
    assert first + Spent() == first


@given(st.lists(spent(rounded), max_size=8), st.randoms(use_true_random=False))
def test_a_total_does_not_depend_on_the_order_of_its_parts(parts: list[Spent], random: object) -> None:
    shuffled = parts.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert total_spent(parts) == total_spent(shuffled)


@given(st.lists(spent(rounded), max_size=8))
def test_a_sum_is_unknown_if_and_only_if_a_part_is(parts: list[Spent]) -> None:
    total = total_spent(parts)
    for name in ("usage", "cost_paid", "cost_uncached", "tokens"):
        values = [getattr(part, name) for part in parts]
        assert (getattr(total, name) is None) == (None in values)
        if name.startswith("cost") and None not in values:
            assert getattr(total, name) == math.fsum(values)
    assert total.calls == sum(part.calls for part in parts)
    assert total.unanswered == sum(part.unanswered for part in parts), "costs of one part are at least: so is the sum"


@given(st.lists(st.none() | counts), st.lists(st.none() | rounded))
def test_unknown_values_make_a_sum_unknown_and_counts_stay_whole(
    whole: list[int | None], real: list[float | None]
) -> None:
    assert known_sum(whole) == (None if None in whole else sum(filter(None, whole)))
    assert known_sum(real) == (None if None in real else math.fsum(filter(None, real)))
    assert isinstance(known_sum([*filter(None, whole)]), int)


def test_nothing_spent_is_known_to_be_nothing() -> None:
    assert total_spent(()) == Spent() == Spent(usage=Usage(), cost_paid=0.0, cost_uncached=0.0)
    assert (Spent().tokens, Spent(usage=Usage(3, 2, 1, 1)).tokens, Spent(usage=None).tokens) == (0, 5, None)


@pytest.mark.parametrize(("cached", "price", "paid"), [(False, 0.5, 0.5), (True, 0.5, 0.0), (True, None, 0.0)])
def test_a_cached_call_costs_nothing_and_keeps_its_full_price(cached: bool, price: float | None, paid: float) -> None:
    faults = (Fault(kind="timeout", message=""), Fault(kind="rate_limit", message=""))
    call = Call(key="", kind="model", role="answering", node="", actor="m", at=0.0, seconds=2.0, cached=cached,
                usage=Usage(3, 2), cost_uncached=price, faults=faults)  # fmt: skip
    assert call.spent == Spent(
        calls=1, usage=Usage(3, 2), cost_paid=paid, cost_uncached=price, seconds=2.0, unanswered=1
    )


def test_an_attempt_reports_what_it_spent() -> None:
    attempt = Attempt(run="r", question_id="q", epoch=0, status="completed", text="", seconds=1.5, model_calls=3,
                      unanswered=1, cost_uncached=0.25)  # fmt: skip
    assert attempt.spent == Spent(calls=3, usage=None, cost_paid=None, cost_uncached=0.25, seconds=1.5, unanswered=1)


def test_what_nobody_answered_is_unknown_and_not_0() -> None:
    nothing = Spent(calls=3)
    assert nothing.without_answer == Spent(calls=3, usage=None, cost_paid=0.0, cost_uncached=None)
    billed = Spent(calls=3, unanswered=2)
    assert billed.without_answer == replace(billed, usage=None, cost_paid=None, cost_uncached=None)
    answered = Spent(calls=3, unanswered=2, usage=Usage(3, 2), cost_paid=0.5, cost_uncached=0.5)
    assert answered.without_answer == answered
