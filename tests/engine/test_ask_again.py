"""What a retry that was broken off has paid for, what is asked again, and what an attempt is chosen by."""

from __future__ import annotations

import pytest

from ragrounds.contracts import Entry, Request
from ragrounds.errors import UserError
from ragrounds.evals.engine.ask_again import RetryChoice, calls_asked_again, plan_retry
from ragrounds.evals.engine.progress import attempts_left
from ragrounds.evals.store.asked_again import (
    AskedAgain,
    begin_retry,
    fault_of,
    following_key,
    paid_before_retries,
    replaced_replies,
    retries,
    settled,
    unpacked,
)
from ragrounds.evals.store.garbage import collect_garbage
from ragrounds.evals.store.journal import StoreJournal, attempt_payer
from ragrounds.evals.store.ledger import unfinished
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages
from ragrounds.evals.store.traces import calls
from ragrounds.models.faults import CallFailed
from ragrounds.records import FINAL, NO_CHOICES, Attempt, Message, Reply, Usage
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.loaded import LoadedAttempt
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, questions

GOOD = Reply(text='{"answer_choice": "A"}', usage=Usage(10, 5))
EMPTY = Reply(text=" \u200b\n", usage=Usage(10, 0))


async def test_what_a_broken_off_retry_has_paid_for_is_kept(store: Store) -> None:
    asked, golds = questions(2)
    one = planned(store, "direct", asked, golds, ScriptedModel(say=lambda request: EMPTY))
    await replayed(store, [one], asked, golds)
    plan = plan_retry(store, one.run, RetryChoice(answer_statuses=("empty",)))
    assert len(plan.attempts) == 2
    begin_retry(store, one.run, plan.attempts)
    assert retries(store, one.run).open == {("t/0", 0), ("t/1", 0)}
    assert settled(store, one.run) == {}
    assert attempts_left(store, one.run, asked) == 2
    # A call of the retry arrived and was recorded; then the process was killed.
    journal = StoreJournal(store)
    request = Request(messages=(Message("user", "again"),))
    key = following_key(plan.attempts["t/0", 0].keys[0])
    payer = attempt_payer(one.run, "t/0", 0, 1)

    async def make() -> Reply:
        return GOOD

    await journal.once(Entry(key=key, kind="model", actor="m", request=request, payer=payer), make, Reply)
    journal.close()
    assert collect_garbage(store.engine, FINAL, hours=0).calls.count == 0
    assert unfinished(store, [one.run]).calls == 1
    assert paid_before_retries(store, one.run) == pytest.approx(0.002)
    model = ScriptedModel()
    await replayed(store, [planned(store, "direct", asked, golds, model)], asked, golds)
    assert len(model.asked) == 1, "the call that arrived is not asked again"
    made = attempts(store, one.run)
    assert {attempt.retry for attempt in made.values()} == {1}
    assert [made[id].cost_paid for id in ("t/0", "t/1")] == [pytest.approx(0.001)] * 2
    assert unfinished(store, [one.run]).calls == 0
    begin_retry(store, one.run, {("t/0", 0): AskedAgain("status failed", ())})
    begin_retry(store, one.run, {("t/0", 0): AskedAgain("status failed", ())})
    assert retries(store, one.run).numbers == {("t/0", 0): 2, ("t/1", 0): 1}


async def test_the_viewer_has_the_earlier_attempt(store: Store) -> None:
    asked, golds = questions(1)
    say = [Reply(text="", finish="none", usage=Usage(10, 0)), GOOD]
    one = planned(store, "direct", asked, golds, ScriptedModel(say=lambda request: say.pop(0)))
    await replayed(store, [one], asked, golds)
    begin_retry(store, one.run, plan_retry(store, one.run, RetryChoice(faults=(NO_CHOICES,))).attempts)
    await replayed(store, [one], asked, golds)
    pages = Pages(store, [one.run])
    loaded = LoadedAttempt(pages, pages.read([0])[0])
    shown = "\n".join(block.text for block in detail(loaded, loaded.root))
    assert "first attempt, replaced (chosen by fault no_choices): failed: no_choices: the provider gave a" in shown
    assert len(unpacked(bytes.fromhex("00" * 64))) == 2
    with pytest.raises(ValueError, match="whole keys"):
        unpacked(b"\0" * 33)


@pytest.mark.parametrize(
    ("replies", "status", "again"),
    [
        ([GOOD], "completed", [0]),
        ([GOOD, EMPTY], "completed", [1]),
        ([EMPTY, GOOD], "completed", [0, 1]),
        ([GOOD, Reply(text="", finish="none")], "failed", [1]),
        ([GOOD, Reply(text="", finish="content_filter")], "blocked", [1]),
        ([GOOD, GOOD], "capped", [1]),
        ([GOOD, CallFailed("rate_limit", "slow down")], "failed", []),
    ],
)
async def test_which_calls_are_asked_again(store: Store, replies, status, again) -> None:
    """Bad replies; of an attempt with a text, and of one without a bad reply, the last call too."""
    asked, golds = questions(1)
    left = list(replies)
    one = planned(
        store, "i_medrag[rounds=1,queries=1]", asked, golds, ScriptedModel(say=lambda _: (left or [GOOD]).pop(0))
    )
    await replayed(store, [one], asked, golds)
    (made,) = store.attempts(one.run)
    models = [call for call in calls(made.events) if call.kind == "model"][: len(replies)]
    events = tuple(event for event in made.events if getattr(event, "call", None) in models)
    cut = Attempt(
        run=made.run, question_id=made.question_id, epoch=0, status=status, text="x" if status == "completed" else "",
        events=events,
    )  # fmt: skip
    keys = [call.key for call in models]
    assert list(calls_asked_again(store, cut)) == [keys[place] for place in again]


def test_keys_follow_each_other_and_chains_end_at_the_newest(store: Store) -> None:
    asked, golds = questions(1)
    one = planned(store, "direct", asked, golds)
    store.add_attempts(one.run, [Attempt(run=one.run.id, question_id="t/0", epoch=0, status="failed", text="")])
    first = "ab" * 32
    second, third = following_key(first), following_key(following_key(first))
    assert len({first, second, third}) == 3
    begin_retry(store, one.run, {("t/0", 0): AskedAgain("status failed", (first,))})
    found = replaced_replies(store, one.run)
    assert found.retried == {first: second}
    assert found.others == {first: first}, "the journal does not hold it yet"
    again = Attempt(run=one.run.id, question_id="t/0", epoch=0, status="failed", text="", retry=1)
    store.add_attempts(one.run, [again])
    begin_retry(store, one.run, {("t/0", 0): AskedAgain("status failed", (second,))})
    assert replaced_replies(store, one.run).retried == {first: third, second: third}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("rate_limit: 429: slow down (gave up after 8 tries)", "rate_limit"),
        ("no_choices: the provider gave a response without choices", NO_CHOICES),
        ("ValueError: no JSON", "ValueError"),
        ("the list of replies is empty", "other"),
        ("", "other"),
    ],
)
def test_faults_by_their_reason(reason: str, kind: str) -> None:
    attempt = Attempt(run="r", question_id="q", epoch=0, status="failed", text="", reason=reason)
    assert fault_of(attempt) == kind


@pytest.mark.parametrize(
    ("choice", "status", "reason", "read", "chosen"),
    [
        (RetryChoice(statuses=("failed",)), "failed", "server: 500", None, "status failed"),
        (RetryChoice(statuses=("failed",)), "capped", "", None, ""),
        (RetryChoice(statuses=("failed",)), "completed", "", "empty", ""),
        (RetryChoice(faults=("server",)), "failed", "server: 500", None, "fault server"),
        (RetryChoice(faults=("server",)), "failed", "rate_limit: 429", None, ""),
        (RetryChoice(faults=("server",)), "blocked", "", None, ""),
        (RetryChoice(statuses=("failed", "blocked"), faults=("server",)), "blocked", "", None, "status blocked"),
        (RetryChoice(statuses=("blocked",), faults=("server",)), "failed", "server: 500", None, ""),
        (RetryChoice(answer_statuses=("empty",)), "completed", "", "empty", "answer status empty"),
        (RetryChoice(answer_statuses=("empty",)), "failed", "server: 500", "empty", ""),
        (RetryChoice(answer_statuses=("empty",)), "completed", "", None, ""),
        (
            RetryChoice(answer_statuses=("refused",), statuses=("failed",)),
            "completed",
            "",
            "refused",
            "answer status refused",
        ),
    ],
)
def test_what_an_attempt_is_chosen_by(choice: RetryChoice, status, reason: str, read, chosen: str) -> None:
    attempt = Attempt(run="r", question_id="q", epoch=0, status=status, text="", reason=reason)
    assert choice.chosen(attempt, read) == chosen


def test_an_imported_run_has_nobody_to_ask(store: Store) -> None:
    from msgspec.structs import replace

    asked, golds = questions(1)
    one = planned(store, "direct", asked, golds)
    with pytest.raises(UserError, match="nobody to ask again"):
        plan_retry(store, replace(one.run, origin="imported"), RetryChoice(statuses=("failed",)))
