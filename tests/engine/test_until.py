"""Ending a run when a claim is decided: the order, who counts, what is kept, going on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt, Request
from ragrounds.base.records import Attempt, Fault, Question, Reply, Score, Usage
from ragrounds.evals.claims.sequential_stop import ClaimStop
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.engine.question_order import draw_rounds, rounds_within
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import replay
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store import schema
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.faults import CallFailed
from tests.engine.conftest import planned
from tests.engine.doubles import ScriptedModel, always, questions

CLAIM = "separated(direct, direct_cot) @ 95%"
RIGHT, WRONG = '{"answer_choice": "A"}', '{"answer_choice": "B"}'


def pair(store: Store, count: int = 200, epochs: int = 1, better: str = RIGHT, worse: str = WRONG) -> tuple[
    list[PlannedRun], list[Question], dict
]:  # fmt: skip
    asked, golds = questions(count)
    one = planned(store, "direct", asked, golds, ScriptedModel(always(better)), epochs=epochs)
    other = planned(store, "direct_cot", asked, golds, ScriptedModel(always(worse), spec="test:worse"), epochs=epochs)
    return [one, other], list(asked), dict(golds)


def watching(
    planned_runs: Sequence[PlannedRun], asked: Sequence[Question], claim: str = CLAIM, most: int | None = None
) -> ClaimStop:
    return ClaimStop(claim, [one.run for one in planned_runs], asked, seed=3, max_questions=most)


def finished(
    one: PlannedRun, question: Question, value: float, epoch: int = 0, status: str = "completed"
) -> FinishedAttempt:
    attempt = Attempt(run=one.run.id, question_id=question.id, epoch=epoch, status=status, text="")
    score = Score(question_id=question.id, epoch=epoch, scorer="robust", value=value, answer_status="answered")
    return FinishedAttempt(one.run, attempt, (score,))


async def played(
    store: Store, planned_runs: Sequence[PlannedRun], until: ClaimStop, golds: dict, **options: object
) -> str:
    journal = StoreJournal(store)
    try:
        return await replay(
            ReplayedRuns(store, journal, planned_runs, scorers_for), until.questions, golds, stops=[until], **options
        )
    finally:
        journal.close()


async def test_a_clear_difference_ends_the_run_early_on_the_same_questions(store: Store) -> None:
    planned_runs, asked, golds = pair(store)
    until = watching(planned_runs, asked)
    ended = await played(store, planned_runs, until, golds, concurrency=4)
    assert "holds after" in ended
    now = until.state
    assert now.decision == "holds"
    assert 5 < now.questions < 30
    condition = now.conditions[0]
    assert (condition.value, condition.high, condition.rounds) == (1.0, 1.0, now.questions)
    assert condition.low is not None
    assert condition.low > 0
    assert condition.p is not None
    assert condition.p <= 0.05
    done = [set(store.done(one.run)) for one in planned_runs]
    assert done[0] == done[1]
    drawn = [question.id for question in until.questions]
    assert {id for id, _ in done[0]} == set(drawn[: len(done[0])])
    assert now.questions <= len(done[0]) <= now.questions + 4  # what was in flight is finished


async def test_equal_agents_end_at_the_most_questions_undecided(store: Store) -> None:
    planned_runs, asked, golds = pair(store, 60, worse=RIGHT)
    until = watching(planned_runs, asked, most=25)
    assert await played(store, planned_runs, until, golds) == ""
    assert (until.state.decision, until.state.questions) == ("undecided", 25)
    assert until.last == "--max-questions is reached"
    assert watching(planned_runs, asked).last == "all questions are answered"
    assert until.state.conditions[0].p == 1.0
    assert len(store.done(planned_runs[0].run)) == 25


def test_a_quick_answer_does_not_jump_the_queue(store: Store) -> None:
    planned_runs, asked, _ = pair(store, 40)
    until = watching(planned_runs, asked)
    first, *rest = until.questions
    for question in rest:  # all but the first drawn, as different as can be
        for one, value in zip(planned_runs, (1.0, 0.0), strict=True):
            until.observe(finished(one, question, value))
    assert (until.state.questions, until.reached()) == (0, "")
    until.observe(finished(planned_runs[0], first, 0.0))
    assert until.reached() == ""
    until.observe(finished(planned_runs[1], first, 1.0))
    assert "holds" in until.reached()
    # As if they had come one after the other.
    orderly = watching(planned_runs, asked)
    for question in orderly.questions:
        for one, value in zip(planned_runs, (1.0, 0.0), strict=True):
            orderly.observe(finished(one, question, value if question != first else 1.0 - value))
    assert orderly.state == until.state


async def test_questions_are_asked_with_all_their_epochs_before_the_next(store: Store) -> None:
    planned_runs, asked, golds = pair(store, 30, epochs=3)
    until = watching(planned_runs, asked)
    await played(store, planned_runs, until, golds, concurrency=2)
    assert until.state.decision == "holds"
    assert len(store.done(planned_runs[0].run)) < 90
    answered = {id for id, _ in store.done(planned_runs[0].run)}
    assert answered == {question.id for question in until.questions[: len(answered)]}


async def test_going_on_takes_what_is_there_and_decides_the_same(store: Store) -> None:
    planned_runs, asked, golds = pair(store)
    part = watching(planned_runs, asked, most=4)
    await played(store, planned_runs, part, golds)
    until = watching(planned_runs, asked)
    until.read(store)
    assert until.state.questions == 4
    with store.engine.begin() as connection:  # a damaged attempt is made again, from its recorded calls
        connection.execute(
            sa.update(schema.attempts).where(schema.attempts.c.question_id == asked[0].id).values(at=1.0)
        )
    until = watching(planned_runs, asked)
    until.read(store)
    await played(store, planned_runs, until, golds, concurrency=1)
    again = watching(planned_runs, asked)
    again.read(store)
    assert again.state == until.state
    assert again.reached() == until.reached() != ""
    calls = sum(len(one.models["model"].asked) for one in planned_runs)  # type: ignore[attr-defined]
    await played(store, planned_runs, again, golds)
    assert sum(len(one.models["model"].asked) for one in planned_runs) == calls  # type: ignore[attr-defined]


async def test_a_failed_attempt_is_not_correct_and_asked_again_first(store: Store) -> None:
    asked, golds = questions(30)

    def flaky(request: Request) -> Reply | Exception:
        if any(f"number {n}?" in str(request) for n in (2, 5)):
            return CallFailed("server", "broken", [Fault(kind="server", message="broken", status=500)])
        return Reply(text=RIGHT, usage=Usage(1, 1))

    planned_runs = [
        planned(store, "direct", asked, golds, ScriptedModel(flaky)),
        planned(store, "direct_cot", asked, golds, ScriptedModel(always(RIGHT), spec="test:other")),
    ]
    until = watching(planned_runs, asked)
    await played(store, planned_runs, until, golds)
    assert until.state.questions == 30
    assert until.state.conditions[0].value == pytest.approx(-2 / 30)
    mended = [replace(planned_runs[0], models={"model": ScriptedModel(always(RIGHT))}), planned_runs[1]]
    again = watching(mended, asked)
    again.read(store)
    assert again.state.questions < 30
    await played(store, mended, again, golds)
    assert (again.state.questions, again.state.conditions[0].value) == (30, 0.0)


async def test_slow_answers_in_any_order_give_the_decision_of_the_drawn_order(store: Store) -> None:
    asked, golds = questions(80)

    class Uneven(ScriptedModel):
        async def complete(self, request: Request, faults: list[Fault]) -> Reply:
            await asyncio.sleep(0.001 * (hash(str(request)) % 7))
            return await super().complete(request, faults)

    def sometimes(request: Request) -> Reply | Exception:
        return Reply(text=RIGHT if any(f"number {n}?" in str(request) for n in range(0, 80, 5)) else WRONG)

    planned_runs = [
        planned(store, "direct", asked, golds, Uneven(always(RIGHT))),
        planned(store, "direct_cot", asked, golds, Uneven(sometimes, spec="test:worse")),
    ]
    until = watching(planned_runs, asked)
    await played(store, planned_runs, until, golds, concurrency=16)
    alone = watching(planned_runs, asked)
    by_id = {question.id: float(int(question.id.split("/")[1]) % 5 == 0) for question in asked}
    for question in alone.questions:
        alone.observe(finished(planned_runs[0], question, 1.0))
        alone.observe(finished(planned_runs[1], question, by_id[question.id]))
    assert until.state.decision == "holds"
    assert until.state == alone.state


def test_a_round_takes_one_of_every_dataset_and_duplicates_together() -> None:
    first = [
        replace(one, benchmark="x/a", cluster="twins" if n in (1, 4) else "") for n, one in enumerate(questions(6)[0])
    ]
    second = [replace(one, id=f"u/{n}", benchmark="x/b") for n, one in enumerate(questions(3)[0])]
    rounds = draw_rounds([*first, *second], seed=0)
    # Three: where the smaller dataset ends.
    assert [[part[0].benchmark for part in drawn.parts] for drawn in rounds] == [["x/a", "x/b"]] * 3
    alone = draw_rounds(first, seed=0)
    assert sorted(len(one.questions) for one in alone) == [1, 1, 1, 1, 2]
    assert {one.id for drawn in alone for one in drawn.questions if len(drawn.questions) == 2} == {"t/1", "t/4"}
    assert rounds_within(alone, 6) == alone
    assert sum(len(one.questions) for one in rounds_within(alone, 3)) <= 3
    assert [one.questions for one in draw_rounds(reversed(first), 0)] != [
        one.questions for one in draw_rounds(first, 1)
    ]
