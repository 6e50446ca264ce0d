"""Judging within a budget: question by question, the same ones for all runs; the rest is missing, and goes on."""

import asyncio

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold, Question
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.engine.budget import Budget
from tests.judges.doubles import Scripted, judge_stored, keep_run

COUNT = 12


def staged(store, name, *, epochs=1, questions="set"):
    asked = [Question(id=f"og/{n:02}", benchmark="og", text=f"{n}?", kind="long") for n in range(COUNT)]
    golds = {question.id: Gold(question_id=question.id, answer="blue") for question in asked}
    texts = [[f"{name} {one.id} {epoch}" for epoch in range(epochs)] for one in asked]
    return keep_run(store, asked, golds, texts, agent=name, epochs=epochs, questions=questions, identity={})


def judge(name="openai:judge", say=lambda prompt, occurrence: '{"grade": "equivalent"}'):
    return Scripted(say, name=name)


def judged(store, run):
    return {(one.question_id, one.epoch) for one in store.scores(run, "equivalent") if one.value is not None}


async def test_all_runs_have_verdicts_on_the_same_questions_and_the_same_command_goes_on(store):
    runs = [staged(store, "a", epochs=2), staged(store, "b", epochs=2)]
    made = await judge_stored(store, runs, [judge()], budget=Budget(cost=0.0055), at_once=3)  # each call costs 0.001
    assert "the budget of $0.0055 is used up" in made.ended
    keys = judged(store, runs[0])
    assert keys == judged(store, runs[1])
    assert 2 <= len(keys) < 2 * COUNT
    assert {id for id, _ in keys} == {f"og/{n:02}" for n in range(len(keys) // 2)}  # in the benchmark's order, whole
    left = [one for one in store.scores(runs[0], "equivalent") if one.value is None]
    assert len(left) + len(keys) == 2 * COUNT
    assert all(one.reason.startswith("not judged: the budget of $0.0055") for one in left)
    assert [one.left for one in made.runs] == [len(left)] * 2
    line = compare(store, runs, scorers=["equivalent"]).tables[0].lines[0]
    assert (line.overall.n, line.overall.missing) == (len(keys) // 2, COUNT - len(keys) // 2)
    asked = sum(one.calls for one in made.runs)
    again = judge()
    rest = await judge_stored(store, runs, [again])
    assert rest.ended == ""
    assert len(again.requests) == 4 * COUNT - asked
    assert judged(store, runs[0]) == judged(store, runs[1])
    assert len(judged(store, runs[0])) == 2 * COUNT


async def test_what_the_journal_answers_is_taken_beyond_the_budget(store):
    runs = [staged(store, "a"), staged(store, "b")]
    await judge_stored(store, runs, [judge()])
    silent = judge()
    made = await judge_stored(store, runs, [silent], budget=Budget(cost=0))
    assert (made.ended, silent.requests, [one.left for one in made.runs]) == ("", [], [0, 0])
    assert len(judged(store, runs[0])) == COUNT


async def test_another_judge_without_a_budget_leaves_no_verdicts_of_the_first(store):
    runs = [staged(store, "a")]
    await judge_stored(store, runs, [judge()])
    made = await judge_stored(store, runs, [judge("openai:other")], budget=Budget(cost=0))
    assert made.runs[0].left == COUNT
    assert judged(store, runs[0]) == set()  # two judges are never mixed in one figure
    await judge_stored(store, runs, [judge()], mode="replay")  # and the first one's are in the journal
    assert len(judged(store, runs[0])) == COUNT


async def test_half_a_question_in_the_journal_is_no_question(store):
    runs = [staged(store, "a"), staged(store, "b")]
    await judge_stored(store, runs[:1], [judge()])
    made = await judge_stored(store, runs, [judge()], budget=Budget(cost=0))
    assert [one.left for one in made.runs] == [COUNT, COUNT]
    assert judged(store, runs[0]) == judged(store, runs[1]) == set()


async def test_a_panel_keeps_to_it_too(store):
    runs = [staged(store, "a"), staged(store, "b")]
    judges = [judge("openai:one"), judge("openai:two")]
    made = await judge_stored(store, runs, judges, budget=Budget(tokens=1), at_once=1)
    assert "tokens is used up" in made.ended
    assert [(one.panel.judged, one.left) for one in made.runs] == [(1, COUNT - 1)] * 2
    assert judged(store, runs[0]) == judged(store, runs[1]) == {("og/00", 0)}


async def test_an_unknown_price_is_beyond_every_budget_of_money(store):
    run = staged(store, "a")
    unpriced = judge()
    unpriced.dollars = None
    made = await judge_stored(store, [run], [unpriced], budget=Budget(cost=100), at_once=1)
    assert "the cost of a call is unknown" in made.ended
    assert made.runs[0].left == COUNT - 1


async def test_time_is_up(store):
    run = staged(store, "a")

    class Slow(Scripted):
        async def complete(self, request, faults):
            await asyncio.sleep(0.05)
            return await super().complete(request, faults)

    slow = Slow(lambda prompt, occurrence: '{"grade": "mismatch"}', name="openai:slow")
    made = await judge_stored(store, [run], [slow], budget=Budget(seconds=0.12), at_once=1)
    assert "0.12 seconds is used up" in made.ended
    assert 0 < made.runs[0].left < COUNT


async def test_runs_that_cannot_be_judged_together(store):
    run = staged(store, "a")
    with pytest.raises(UserError, match="given twice"):
        await judge_stored(store, [run, run], [judge()])
    with pytest.raises(UserError, match="different questions"):
        await judge_stored(store, [run, staged(store, "b", questions="other")], [judge()])
