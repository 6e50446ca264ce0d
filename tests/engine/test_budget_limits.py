"""Exactly at a limit, just below it, and with what cannot be counted: what a budget says, word for word."""

from __future__ import annotations

import math
import time

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.engine.budget import Budget, BudgetStop, check_prices
from tests.engine.doubles import ScriptedModel


def used(budget: Budget, *counted: tuple[float | None, int | None]) -> str:
    stop = BudgetStop(budget)
    for cost, tokens in counted:
        stop.count(cost, tokens)
    return stop.reached()


def test_a_model_without_a_price_is_named_before_the_first_call() -> None:
    unpriced = ScriptedModel(spec="openai:mystery[server=http://127.0.0.1:9/v1]", cost=None)
    check_prices([ScriptedModel()])
    with pytest.raises(UserError, match=r"needs a price of openai:mystery, .* MODEL\[price_input=….* prices.toml"):
        check_prices([ScriptedModel(), unpriced])
    assert unpriced.asked == []


def test_without_a_limit_nothing_is_reached() -> None:
    assert used(Budget()) == ""
    assert used(Budget(), (1e9, 10**12), (None, None)) == ""
    assert not BudgetStop(Budget()).epochs_together


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        ([], ""),
        ([(0.25, 0), (0.125, 0)], ""),
        ([(0.25, 0), (0.25, 0)], "the budget of $0.5 is used up: $0.5000, without calls then in flight"),
        ([(0.25, 0), (0.26004, 0)], "the budget of $0.5 is used up: $0.5100, without calls then in flight"),
        ([(0.01, None)], ""),  # tokens that are not known are no cost
        ([(None, 0), (0.01, 0)], "the budget of $0.5 cannot be checked: the cost of a call is unknown"),
        ([(0.01, 0), (None, 0)], "the budget of $0.5 cannot be checked: the cost of a call is unknown"),
    ],
)
def test_money(counted: list[tuple[float | None, int | None]], said: str) -> None:
    assert used(Budget(cost=0.5), *counted) == said


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        ([(0.0, 600), (0.0, 899)], ""),
        ([(0.0, 600), (0.0, 900)], "the budget of 1,500 tokens is used up: 1,500, without calls then in flight"),
        ([(None, 1501)], "the budget of 1,500 tokens is used up: 1,501, without calls then in flight"),
        *(
            (
                [(0.0, 1), (0.0, n), (0.0, 1)],
                "the budget of 1,500 tokens cannot be checked: the tokens of a call are unknown",
            )
            for n in (None, -1)
        ),
    ],
)
def test_tokens(counted: list[tuple[float | None, int | None]], said: str) -> None:
    assert used(Budget(tokens=1500), *counted) == said


def test_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    stop = BudgetStop(Budget(seconds=2.5))
    clock = 102.25
    assert stop.reached() == ""
    clock = 102.5
    assert stop.reached() == "the time budget of 2.5 seconds is used up"
    clock = 900.0
    assert stop.reached() == "the time budget of 2.5 seconds is used up"


def test_of_several_limits_money_is_said_first_and_time_last() -> None:
    all_of_them = Budget(cost=1.0, tokens=10, seconds=0.0)
    assert used(all_of_them, (1.0, 10)).startswith("the budget of $1 ")
    assert used(all_of_them, (0.5, 10)).startswith("the budget of 10 tokens ")
    assert used(all_of_them, (0.5, 9)) == "the time budget of 0 seconds is used up"
    assert used(Budget(cost=0.0)).startswith("the budget of $0 is used up")
    assert used(Budget(tokens=0)).startswith("the budget of 0 tokens is used up")


@pytest.mark.parametrize(
    ("budget", "room"),
    [
        (Budget(), math.inf),
        (Budget(tokens=1000), 7.0),  # 50 tokens an attempt are enough for 20, of which 6 have begun
        (Budget(tokens=1000, cost=2.0), 1.0),  # $0.25 an attempt are enough for 8
    ],
)
def test_half_of_what_a_budget_is_estimated_to_pay_for_may_begin(budget: Budget, room: float) -> None:
    stop = BudgetStop(budget)
    for _ in range(4):
        stop.count(0.25, 50)
    assert stop.room(started_attempts=6, ended=4) == room


def test_without_an_estimate_none_may_begin() -> None:
    stop = BudgetStop(Budget(cost=2.0))
    assert stop.room(started_attempts=0, ended=0) == 0
    stop.count(None, 50)
    assert stop.room(started_attempts=0, ended=1) == 0
