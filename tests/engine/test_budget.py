"""A run's budget: what is begun is finished, agents stay comparable, the same command resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Fault, Gold, Noted, Passage, Question, Reply, Usage
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.engine import budget as budgets
from ragrounds.evals.engine.budget import Budget, BudgetStop
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import replay
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.faults import CallFailed
from tests.engine.conftest import planned
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, questions


async def ended_by(
    store: Store, runs: Sequence[PlannedRun], asked: Sequence[Question], golds: Mapping[str, Gold], budget: Budget,
    concurrency: int = 1,
) -> str:  # fmt: skip
    """Replay within a budget; return the reason why it ended."""
    journal, stops = StoreJournal(store), [BudgetStop(budget)]
    try:
        replayed = ReplayedRuns(store, journal, runs, scorers_for)
        return await replay(replayed, asked, golds, concurrency=concurrency, stops=stops)
    finally:
        journal.close()


@pytest.mark.parametrize(
    ("budget", "said"),
    [(Budget(cost=0.0105), "$0.0105"), (Budget(tokens=150), "150 tokens"), (Budget(seconds=0.2), "0.2 seconds")],
)
async def test_every_agent_has_answered_the_same_questions_at_the_end(
    store: Store, budget: Budget, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, golds = questions(40)
    model = ScriptedModel(delay=0.02)
    # A clock of calls: a busy machine would use up the time before the first answer.
    monkeypatch.setattr(budgets, "time", SimpleNamespace(monotonic=lambda: 0.01 * len(model.asked)))
    pair = [planned(store, agent, asked, golds, model) for agent in ("direct", "direct_cot")]
    assert said in await ended_by(store, pair, asked, golds, budget, concurrency=3)
    answered = [set(store.done(one.run)) for one in pair]
    assert answered[0] == answered[1]
    assert 0 < len(answered[0]) < 40
    runs = [one.run for one in pair]
    assert compare(store, runs, common=True).questions == len(answered[0])
    assert compare(store, runs).rows[0].statuses["not_run"] == 40 - len(answered[0])
    assert await ended_by(store, pair, asked, golds, Budget()) == ""
    assert [len(store.done(one.run)) for one in pair] == [40, 40]
    assert len(model.asked) == 80


async def test_an_unknown_cost_ends_a_run_with_a_budget_of_money(store: Store) -> None:
    asked, golds = questions(10)
    one = planned(store, "direct", asked, golds, ScriptedModel(say=lambda request: Reply(text="A"), cost=None))
    assert "no price of test:scripted is known" in await ended_by(store, [one], asked, golds, Budget(cost=5))
    assert len(store.done(one.run)) == 1


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(
    ("price", "said"),
    [(0.001, "the budget of $0.0035 is used up: $0.0040,"), (None, "no price of test:scripted is known")],
)
async def test_requests_without_an_answer_count_as_paid(
    store: Store, answers: bool, price: float | None, said: str
) -> None:
    class Silent(ScriptedModel):
        async def complete(self, request: Request, faults: list[Fault]) -> Reply:
            unanswered = Fault(kind="timeout", message="no answer")
            if not answers:
                raise CallFailed("timeout", "no answer", [unanswered] * 2)
            faults.append(unanswered)
            return await super().complete(request, faults)

    asked, golds = questions(10)
    run = planned(store, "direct", asked, golds, Silent(cost=price))
    assert said in await ended_by(store, [run], asked, golds, Budget(cost=0.0035))
    assert len(store.done(run.run)) == (1 if price is None else 2)


async def test_a_failed_call_with_known_tokens_and_an_unknown_price_makes_the_cost_unknown(store: Store) -> None:
    class Cut(ScriptedModel):
        async def complete(self, request: Request, faults: list[Fault]) -> Reply:
            raise CallFailed("malformed", "cut off", [Fault(kind="malformed", message="cut off", usage=Usage(9, 2))])

    asked, golds = questions(2)
    run = planned(store, "direct", asked, golds, Cut(cost=None))
    ended = await ended_by(store, [run], asked, golds, Budget(cost=5))
    assert ended.startswith("the budget of $5 cannot be checked: no price of test:scripted is known. Give one: MODEL[")


async def test_a_search_that_failed_leaves_the_cost_known(store: Store) -> None:
    class Failing(ScriptedSearcher):
        async def search(self, query: str, k: int) -> list[Passage]:
            raise CallFailed("server", "the search is away")

    asked, golds = questions(4)
    one = planned(store, "vanilla_rag", asked, golds, ScriptedModel(), Failing())
    assert await ended_by(store, [one], asked, golds, Budget(cost=5)) == ""
    assert [attempt.status for attempt in store.attempts(one.run)] == ["failed"] * 4


@pytest.mark.parametrize(
    ("usage", "cost", "budget"),
    [
        (Usage(-5000, 5), 0.001, Budget(tokens=5_000)),
        (Usage(10, 5, 11), 0.001, Budget(tokens=5_000)),
        (Usage(10, 5), -300.0, Budget(cost=5)),
    ],
)
async def test_what_cannot_be_true_voids_no_budget(store: Store, usage: Usage, cost: float, budget: Budget) -> None:
    asked, golds = questions(10)
    model = ScriptedModel(say=lambda request: Reply(text="A", usage=usage), cost=cost)
    one = planned(store, "direct", asked, golds, model)
    assert "cannot be checked" in await ended_by(store, [one], asked, golds, budget)
    [attempt] = store.attempts(one.run)
    notes = [event.text for event in attempt.events if isinstance(event, Noted)]
    if budget.tokens:
        assert attempt.usage is None
        assert [note.endswith("the cost is unknown") for note in notes] == [True]


async def test_what_the_journal_answers_uses_nothing(store: Store) -> None:
    asked, golds = questions(10)
    model = ScriptedModel()
    for agent in ("direct", "direct[limits.calls=7]"):
        one = planned(store, agent, asked, golds, model)
        assert await ended_by(store, [one], asked, golds, Budget(cost=0.0101, tokens=151), concurrency=4) == ""
    assert len(model.asked) == 10
    third = planned(store, "direct[limits.calls=8]", asked, golds, model)
    less = Budget(cost=0.0001, tokens=1)  # than one answer would use
    assert await ended_by(store, [third], asked, golds, less) == ""
    assert len(store.done(third.run)) == 10
    assert len(model.asked) == 10


async def test_runs_without_a_common_answer_are_refused(store: Store) -> None:
    asked, golds = questions(4)
    one = planned(store, "direct", asked, golds, ScriptedModel())
    with pytest.raises(UserError, match="No question is answered by all these runs"):
        compare(store, [one.run], common=True)
