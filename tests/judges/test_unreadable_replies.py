"""Judges whose replies hold no verdict: given up early, and what they said is kept."""

import asyncio
import json

from ragrounds.evals.engine.circuit_breaker import FailureLimit
from ragrounds.evals.judges.attempts import FIRST, NOT_ASKED, LabelJudge
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.scorers.statements import STATEMENT_METHOD
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.judge_tables import unreadable_lines
from tests.cli_grading.test_judge_command import ANSWERS, stage
from tests.judges.doubles import Scripted, judge_stored

FACTS = tuple((f"fact {number}",) for number in range(8))
HALF = FailureLimit(share=0.5)


def made(home, judge, method=STATEMENT_METHOD, fail_after=HALF, at_once=2):
    with Store(home) as store:
        run, by = store.run("direct"), LabelJudge(method)
        return asyncio.run(judge_stored(store, [run], [judge], by, fail_after=fail_after, at_once=at_once))


def test_a_judge_that_never_keeps_to_the_form_is_given_up(home):
    stage(home, "direct", ANSWERS, facts=FACTS)
    judge = Scripted(lambda prompt, occurrence: "<b>Well.</b>\x1b[31m " + "x" * 500)
    found = made(home, judge)
    assert FIRST <= len(judge.requests) < FIRST + 8  # of 120 calls
    assert found.silent
    assert found.mute == ("judge",)
    assert found.ended.startswith("none of the first 2")
    assert {verdict.reason for verdict in found.runs[0].verdicts} == {NOT_ASKED, "no verdict in the reply"}
    first, hint = unreadable_lines(found)
    assert first.startswith('judge was asked to end with {"s1": "entailment" or "neutral" or "contradiction"}.')
    assert "\x1b" not in first
    assert len(first.partition("It said: ")[2]) < 140
    assert "--journal fresh" in hint

    again = Scripted(lambda prompt, occurrence: "never asked")
    assert made(home, again).silent
    assert len(again.requests) < 8


def test_it_is_asked_on_where_nothing_ends_it_or_it_spoke(home):
    stage(home, "direct", ANSWERS, facts=FACTS)
    mute = Scripted(lambda prompt, occurrence: "Well.", name="mute")
    assert not made(home, mute, fail_after=FailureLimit()).silent
    assert len(mute.requests) == 5 * 8 * 3
    once = Scripted(
        lambda prompt, occurrence: json.dumps({"s1": "neutral"}) if "fact 0\n" in prompt else "Well.", name="once"
    )
    found = made(home, once)
    assert not found.silent
    assert not found.mute
    assert found.unreadable[0].judge == "once"


def test_unreadable_judgements_count_as_failed(home):
    stage(home, "direct", ANSWERS)
    judge = Scripted(lambda prompt, occurrence: "Well.")
    found = made(home, judge, EQUIVALENCE, FailureLimit(count=2), at_once=1)
    assert found.ended.startswith("2 judgements of judge failed (--fail-after 2), 2 of them by: no verdict")
    assert len(judge.requests) == 6
