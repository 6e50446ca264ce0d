"""Judging that was broken off, by Ctrl-C or worse: what it paid is kept, told apart, and in nobody's next budget."""

import json
import os
import signal
import subprocess
import sys

import pytest

from ragrounds.base.errors import Interrupted, StopRun
from ragrounds.base.records import FINAL
from ragrounds.evals.engine.budget import Budget
from ragrounds.evals.judges.runs import INTERRUPTED
from ragrounds.evals.store.care.garbage import collect_garbage
from ragrounds.evals.store.ledger import ledger
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.judge_tables import bill_lines
from tests.at_work import interrupted, until_asked
from tests.conftest import succeeded
from tests.forked import ForkedPython
from tests.judges.doubles import judge_stored
from tests.judges.test_grading_budget import COUNT, judge, judged, staged
from tests.servers.grader_server import grader_server


def breaking(after):
    """A judge that is gone after so many calls."""
    asked = []

    def say(prompt, occurrence):
        asked.append(prompt)
        if len(asked) > after:
            raise StopRun("the judge is gone")
        return '{"grade": "equivalent"}'

    return judge(say=say)


async def test_the_bill_tells_what_was_made_now_from_what_a_broken_off_judging_paid(store):
    run = staged(store, "a")
    with pytest.raises(StopRun):
        await judge_stored(store, [run], [breaking(after=5)], at_once=1)
    swept = collect_garbage(store.engine, FINAL, hours=0, remove=True)
    assert (swept.calls.count, swept.outside.count) == (0, 0)  # nothing refers to them, but they were paid for
    again = judge()
    (whole,) = (await judge_stored(store, [run], [again])).runs
    assert (whole.calls, len(again.requests)) == (COUNT, COUNT - 5)
    assert (whole.reused, whole.earlier) == (5, 5)
    assert (whole.cost_paid, whole.cost_paid_earlier) == pytest.approx((0.001 * COUNT, 0.005))
    (third,) = (await judge_stored(store, [run], [judge()])).runs
    assert (third.reused, third.earlier, third.cost_paid, third.cost_paid_earlier) == (COUNT, 0, 0.0, 0.0)
    assert ledger(store, [run]).total.cost_paid == pytest.approx(0.001 * COUNT)


@pytest.mark.parametrize("budget", [Budget(cost=0.003), Budget(tokens=330)])
async def test_a_budget_counts_the_calls_of_this_command_alone(store, budget):
    run = staged(store, "a")
    with pytest.raises(StopRun):
        await judge_stored(store, [run], [breaking(after=5)], at_once=1)
    again = judge()
    made = await judge_stored(store, [run], [again], budget=budget, at_once=1)  # a call: 0.001 dollars, 110 tokens
    assert len(again.requests) == 3
    assert made.runs[0].left == COUNT - 8


async def test_of_a_panel_and_several_runs_too(store):
    runs = [staged(store, "a"), staged(store, "b")]
    with pytest.raises(StopRun):
        await judge_stored(store, runs, [breaking(after=6), judge("openai:two")], at_once=1)
    one, two = judge(), judge("openai:two")
    made = await judge_stored(store, runs, [one, two])
    now = len(one.requests) + len(two.requests)
    assert [graded.calls for graded in made.runs] == [2 * COUNT] * 2
    assert sum(graded.calls - graded.reused for graded in made.runs) == now < 4 * COUNT
    assert [graded.reused for graded in made.runs] == [graded.earlier for graded in made.runs]


async def test_the_first_ctrl_c_finishes_the_questions_that_are_begun_and_writes_their_grades(store):
    runs = [staged(store, "a"), staged(store, "b")]

    def interrupting(prompt, occurrence):
        if len(asked.requests) == 6:
            signal.raise_signal(signal.SIGINT)
        return '{"grade": "equivalent"}'

    asked = judge(say=interrupting)
    made = await judge_stored(store, runs, [asked], at_once=3)
    assert made.ended == INTERRUPTED
    keys = judged(store, runs[0])
    assert keys == judged(store, runs[1])
    assert 6 <= len(asked.requests) == 2 * len(keys) <= 10
    left = [one.reason for one in store.scores(runs[0], "equivalent") if one.value is None]
    assert left == ["not judged: judging was interrupted"] * (COUNT - len(keys))
    assert ledger(store, runs).total.cost_paid == pytest.approx(0.001 * len(asked.requests))
    again = judge()
    assert (await judge_stored(store, runs, [again])).ended == ""
    assert len(asked.requests) + len(again.requests) == 2 * COUNT


async def test_the_second_stops_at_once_and_what_was_paid_is_on_the_next_bill(tmp_path):
    def interrupting(prompt, occurrence):
        if len(asked.requests) == 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return '{"grade": "equivalent"}'

    asked = judge(say=interrupting)
    with Store(tmp_path) as first:  # closed, as by the process's end: what is on its way to the disk gets there
        run = staged(first, "a")
        with pytest.raises(Interrupted, match="the same call resumes"):
            await judge_stored(first, [run], [asked], at_once=4)
        assert first.scores(run, "equivalent") == []
    again = judge()
    with Store(tmp_path) as second:
        (whole,) = (await judge_stored(second, [run], [again])).runs
    assert len(asked.requests) + len(again.requests) == COUNT
    assert (whole.earlier, whole.cost_paid) == (len(asked.requests), pytest.approx(0.001 * COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.weekly)])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_on_the_command_line(forked_cli, home, tmp_path, times, how):
    home.mkdir()
    (home / "prices.toml").write_text('["openai:grader"]\ninput = 1000\noutput = 1000\n')
    with Store(home) as store:
        staged(store, "a")
    arguments = ["judge", "a", "--kind", "equivalence", "--judge", "openai:grader"]
    with grader_server("--latency", "2.0") as server:
        command = [sys.executable, "-m", "ragrounds", *arguments, "--base-url", server.url, "--concurrency", "2"]
        process = ForkedPython(command, env=dict(os.environ), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        until_asked(process, server, 4)  # two are answered and written, two are in flight
        told = interrupted(process, times, how=how)
        assert "saved; the same command resumes." in told
        if times == 1:
            assert "4 model calls: 4 made now, 0 from the journal" in told
            assert "8 answers not judged" in told
        else:
            assert len(told.splitlines()) == 2, told  # one for each
        done = succeeded(forked_cli(*arguments, "--base-url", server.url, "--json"))
        found = json.loads(done.stdout)["graded"]
        assert (found["calls"], found["missing"], found["left"]) == (COUNT, 0, 0)
        assert (found["reused"], found["earlier"]) == ((4, 0) if times == 1 else (2, 2))
        if times == 2:
            assert "2 from the journal, 2 of these paid for by an earlier judging that was interrupted" in done.stderr


async def test_a_judge_without_any_verdict_replaces_nothing(store):
    runs = [staged(store, "a"), staged(store, "b")]
    await judge_stored(store, runs, [judge()])
    before = {run.id: store.scores(run, "equivalent") for run in runs}
    never = judge("openai:never", lambda prompt, occurrence: "Well.")
    made = await judge_stored(store, runs, [never])
    assert made.mute == ("openai:never",)
    assert [one.missing for one in made.runs] == [COUNT, COUNT]
    assert {run.id: store.scores(run, "equivalent") for run in runs} == before
    assert ledger(store, runs).total.cost_paid == pytest.approx(0.001 * (2 * COUNT + len(never.requests)))
    panel = await judge_stored(store, runs, [judge(), never])  # nor is it a member of a panel
    assert panel.mute == ("openai:never",)
    first, _, second, *_ = bill_lines(panel)
    assert " judged by openai:judge; openai:never gave no verdict; no score was written" in first
    assert second == f"Verdicts by judge, of {COUNT} answers: openai:judge {COUNT}, openai:never 0."
    (alone, *_) = bill_lines(made)
    assert alone == f"2 runs: 0 answers judged by openai:never; {2 * COUNT} scores missing."
    assert {run.id: store.scores(run, "equivalent") for run in runs} == before


async def test_one_verdict_is_enough_and_the_others_are_missing(store):
    run = staged(store, "a")
    await judge_stored(store, [run], [judge()])
    seldom = judge("openai:seldom", lambda prompt, occurrence: '{"grade": "mismatch"}' if "og/03" in prompt else "?")
    made = await judge_stored(store, [run], [seldom])
    assert made.mute == ()
    assert judged(store, run) == {("og/03", 0)}
