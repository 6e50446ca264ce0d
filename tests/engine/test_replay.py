"""Replay, journal and store: nothing lost, nothing paid twice, everything kept."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Literal

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt, Request
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Fault, Noted, Reply, Usage
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, node_path, retried_faults, steps, trace
from ragrounds.models.faults import CallFailed
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions


async def test_every_question_is_answered_once_scored_and_traced(store: Store) -> None:
    asked, golds = questions(20)
    model, searcher = ScriptedModel(), ScriptedSearcher()
    one = planned(store, "vanilla_rag[top_k=2]", asked, golds, model, searcher)
    journal = await replayed(store, [one], asked, golds)
    kept = attempts(store, one.run)
    assert set(kept) == set(golds)
    assert {attempt.status for attempt in kept.values()} == {"completed"}
    assert (len(model.asked), len(searcher.asked), journal.calls_made, journal.searches) == (20, 20, 20, 20)
    assert {score.value for score in store.scores(one.run, "strict")} == {1.0}
    first = kept["t/0"]
    assert node_path(first.events) == ["retrieve", "answer"]
    assert [call.kind for call in calls(first.events)] == ["search", "model"]
    assert first.usage == Usage(10, 5)
    assert first.cost_paid == first.cost_uncached == pytest.approx(0.001)
    traced = trace(store, one.run, "t/0")
    assert traced.steps[0].calls[0].searched is not None
    assert traced.steps[0].calls[0].searched.query == asked[0].text
    asked_of_model = traced.steps[1].calls[0].asked
    assert asked_of_model is not None
    assert asked_of_model.messages == model.asked[0].messages
    assert "Aspirin inhibits platelets." in asked_of_model.messages[-1].content


async def test_options_are_hidden_from_the_search(store: Store) -> None:
    asked, golds = questions(3)
    searcher = ScriptedSearcher()
    await replayed(store, [planned(store, "vanilla_rag", asked, golds, None, searcher)], asked, golds)
    assert sorted(searcher.asked) == sorted((question.text, 32) for question in asked)


async def test_equal_calls_of_two_agents_are_made_once_and_priced_twice(store: Store) -> None:
    asked, golds = questions(10)
    model = ScriptedModel(delay=0.01)
    twins = [planned(store, text, asked, golds, model) for text in ("direct", "direct[limits.calls=5]")]
    journal = await replayed(store, twins, asked, golds)
    assert (len(model.asked), journal.calls_made, journal.reused) == (10, 10, 10)
    cost_paid = [sum(attempt.cost_paid or 0 for attempt in attempts(store, twin.run).values()) for twin in twins]
    cost_uncached = [
        sum(attempt.cost_uncached or 0 for attempt in attempts(store, twin.run).values()) for twin in twins
    ]
    assert sum(cost_paid) == pytest.approx(0.01)
    assert cost_uncached == [pytest.approx(0.01)] * 2


async def test_replay_mode_answers_from_the_journal_or_stops(store: Store) -> None:
    asked, golds = questions(4)
    await replayed(store, [planned(store, "direct", asked[:3], golds, ScriptedModel())], asked[:3], golds)
    silent = ScriptedModel(say=lambda request: AssertionError("nothing may be called"))
    again = planned(store, "direct[limits.calls=9]", asked[:3], golds, silent)
    journal = await replayed(store, [again], asked[:3], golds, mode="replay")
    assert (journal.calls_made, journal.reused, silent.asked) == (0, 3, [])
    with pytest.raises(StopRun, match=r"not in the journal.*Question number 3"):
        await replayed(store, [planned(store, "direct", asked, golds, silent)], asked, golds, mode="replay")


async def test_a_failed_attempt_is_kept_scored_as_wrong_and_tried_again(store: Store) -> None:
    asked, golds = questions(4)
    fault = Fault(kind="server", message="broken", status=500, waited=0.1)

    def flaky(request: object) -> Reply | Exception:
        if "number 2" in str(request):
            return CallFailed("server", "broken (gave up after 1 try)", [fault])
        return Reply(text='{"answer_choice": "A"}', usage=Usage(10, 5))

    one = planned(store, "direct", asked, golds, ScriptedModel(say=flaky))
    await replayed(store, [one], asked, golds)
    failed = attempts(store, one.run)["t/2"]
    assert (failed.status, failed.reason) == ("failed", "server: broken (gave up after 1 try)")
    assert next(calls(failed.events)).faults == (fault,)
    values = {score.question_id: score.value for score in store.scores(one.run, "mirage")}
    assert values == {"t/0": 1.0, "t/1": 1.0, "t/2": 0.0, "t/3": 1.0}
    model = ScriptedModel()
    await replayed(store, [replace(one, models={"model": model})], asked, golds)
    assert len(model.asked) == 1
    assert attempts(store, one.run)["t/2"].status == "completed"
    assert {score.value for score in store.scores(one.run, "mirage")} == {1.0}


@pytest.mark.parametrize(
    ("finish", "status", "asked_in_all"), [("content_filter", "blocked", 2), ("none", "failed", 4)]
)
async def test_a_refusal_is_paid_once_and_no_reply_asked_for_again(
    store: Store, finish: Literal["content_filter", "none"], status: str, asked_in_all: int
) -> None:
    asked, golds = questions(2)
    model = ScriptedModel(say=lambda request: Reply(text="", finish=finish, usage=Usage(10, 0)))
    one = planned(store, "direct", asked, golds, model)
    for _ in range(2):
        await replayed(store, [one], asked, golds)
    made = attempts(store, one.run).values()
    assert {(attempt.status, attempt.usage) for attempt in made} == {(status, Usage(10, 0))}
    assert len(model.asked) == asked_in_all


async def test_a_refused_prompt_without_a_usage_costs_at_least_nothing(store: Store) -> None:
    asked, golds = questions(1)
    model = ScriptedModel(say=lambda request: Reply(text="", finish="content_filter"), cost=0.0)
    one = planned(store, "direct", asked, golds, model)
    again = planned(store, "direct[limits.calls=9]", asked, golds, model)
    await replayed(store, [one], asked, golds)
    await replayed(store, [replace(again, models=one.models)], asked, golds)
    assert len(model.asked) == 1
    for run in (one.run, again.run):
        made = attempts(store, run)["t/0"]
        assert (made.usage, made.cost_uncached, made.unanswered) == (Usage(), 0.0, 1)
        assert retried_faults(next(calls(made.events))) == ()


async def test_a_cap_of_seconds_ends_a_call_in_the_middle(store: Store) -> None:
    asked, golds = questions(1)
    one = planned(store, "direct[limits.seconds=0.2]", asked, golds, ScriptedModel(delay=30))
    await replayed(store, [one], asked, golds)
    capped = attempts(store, one.run)["t/0"]
    assert (capped.status, capped.reason) == ("capped", "the attempt's cap of 0.2 seconds is reached")
    assert capped.seconds < 10


async def test_what_stops_a_run_keeps_what_was_done(store: Store) -> None:
    asked, golds = questions(10)

    def later(request: object) -> Reply | Exception:
        return StopRun("no credit") if "number 5" in str(request) else Reply(text="A", usage=Usage(1, 1))

    one = planned(store, "direct", asked, golds, ScriptedModel(say=later))
    with pytest.raises(StopRun, match="no credit"):
        await replayed(store, [one], asked, golds, concurrency=1)
    assert len(store.done(one.run)) == 5


async def test_a_graph_with_a_fault_in_it_fails_its_attempt_alone(store: Store) -> None:
    asked, golds = questions(3)
    broken = ScriptedModel(say=lambda request: ZeroDivisionError("a bug") if "1?" in str(request) else Reply(text="A"))
    one = planned(store, "direct", asked, golds, broken)
    await replayed(store, [one], asked, golds)
    failed = attempts(store, one.run)["t/1"]
    assert (failed.status, failed.reason) == ("failed", "ZeroDivisionError: a bug")
    assert any(isinstance(event, Noted) and "Traceback" in event.text for event in failed.events)
    assert attempts(store, one.run)["t/2"].status == "completed"


async def test_unknown_usage_and_price_stay_unknown(store: Store) -> None:
    asked, golds = questions(1)
    one = planned(store, "direct", asked, golds, ScriptedModel(say=lambda request: Reply(text="A"), cost=None))
    await replayed(store, [one], asked, golds)
    kept = attempts(store, one.run)["t/0"]
    assert (kept.usage, kept.cost_paid, kept.cost_uncached) == (None, None, None)


async def test_hostile_text_comes_back_as_it_was(store: Store) -> None:
    text = "\x1b[31m[bold]$question ${x} {y} </answer> <|end_search_result|> \u202e \x00" + "long " * 400
    asked, golds = questions(1)
    model = ScriptedModel(say=always(text))
    one = planned(store, "vanilla_rag", asked, golds, model, ScriptedSearcher(texts=[text]))
    await replayed(store, [one], asked, golds)
    assert attempts(store, one.run)["t/0"].text == text
    assert text in model.asked[0].messages[-1].content
    assert trace(store, one.run, "t/0").steps[0].calls[0].passages[0].text == text


async def test_lone_surrogates_are_replaced_before_anything_uses_them(store: Store) -> None:
    asked, golds = questions(1)
    model = ScriptedModel(say=always("an \ud800 answer"))
    one = planned(store, "vanilla_rag", asked, golds, model, ScriptedSearcher(texts=["a \udfff passage"]))
    await replayed(store, [one], asked, golds)
    assert attempts(store, one.run)["t/0"].text == "an \ufffd answer"
    assert "a \ufffd passage" in model.asked[0].messages[-1].content


async def test_a_full_disk_stops_the_run_with_the_place(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, golds = questions(3)
    one = planned(store, "direct", asked, golds)
    with store.engine.begin() as connection:
        pages = connection.execute(sa.text("PRAGMA page_count")).scalar()
    sa.event.listen(store.engine, "connect", lambda c, _: c.execute(f"PRAGMA max_page_count={pages}"))
    big = ScriptedModel(say=lambda request: Reply(text=os.urandom(200_000).hex()))
    with pytest.raises(StopRun, match=r"Cannot write to the store .*full"):
        await replayed(store, [replace(one, models={"model": big})], asked, golds)


async def test_the_listener_hears_of_each_attempt_with_its_scores(store: Store) -> None:
    asked, golds = questions(3)
    heard: list[FinishedAttempt] = []
    one = planned(store, "direct", asked, golds)
    await replayed(store, [one], asked, golds, listener=heard.append)
    assert {finished.attempt.question_id: bool(finished.scores) for finished in heard} == dict.fromkeys(golds, True)
    assert len(heard) == 3


def test_steps_keep_what_happened_outside_of_nodes_and_what_never_ended() -> None:
    from ragrounds.base.records import Entered

    built = steps([Noted(step=-1, what="x", text="y"), Entered(step=0, node="n", at=1.0)])
    assert [(step.node, step.seconds) for step in built] == [("", None), ("n", None)]


async def test_no_trace_is_uploaded_whatever_the_environment_says(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits: list[bytes] = []
    before = set(threading.enumerate())

    async def hit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hits.append(await reader.read(100))
        writer.close()

    listening = await asyncio.start_server(hit, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_test_0123456789")
    asked, golds = questions(3)
    await replayed(store, [planned(store, "direct", asked, golds)], asked, golds)
    # LangSmith sends from threads of its own: none was begun, so nothing is on its way either.
    new = set(threading.enumerate()) - before
    begun = [getattr(getattr(thread, "_target", None), "__module__", "") for thread in new]
    assert not [module for module in begun if str(module).startswith("langsmith")]
    listening.close()
    assert hits == []


async def test_what_is_left_is_known_epoch_by_epoch(store: Store) -> None:
    asked, golds = questions(4)

    def flaky(request: Request) -> Reply | Exception:
        # Of the second epoch one question fails; no epoch before it does.
        if "number 2" in str(request) and sum("number 2" in str(one) for one in model.asked) == 2:
            return CallFailed("server", "broken", [])
        return always('{"answer_choice": "A"}')(request)

    model = ScriptedModel(say=flaky)
    one = planned(store, "direct", asked, golds, model, epochs=3)
    await replayed(store, [one], asked, golds, concurrency=1)
    failed = [key for key, status in store.done(one.run).items() if status == "failed"]
    assert failed == [("t/2", 1)]
    again = ScriptedModel()
    await replayed(store, [replace(one, models={"model": again})], asked, golds)
    assert ["number 2" in str(request) for request in again.asked] == [True]
    assert set(store.done(one.run).values()) == {"completed"}
    assert len(store.done(one.run)) == 12


async def test_a_search_of_another_retriever_is_another_search(store: Store) -> None:
    asked, golds = questions(3)
    lexical = ScriptedSearcher(spec="lexical")
    dense = ScriptedSearcher(spec="dense", texts=("Other passages of the same corpus.",))
    await replayed(store, [planned(store, "vanilla_rag", asked, golds, None, lexical)], asked, golds)
    other = planned(store, "vanilla_rag[limits.calls=9]", asked, golds, None, dense)
    await replayed(store, [other], asked, golds)
    assert len(lexical.asked) == len(dense.asked) == 3
    traced = trace(store, other.run, "t/0").steps[0].calls[0]
    assert (traced.call.cached, [passage.text for passage in traced.passages]) == (False, list(dense.texts))
    elsewhere = ScriptedSearcher(spec="dense", corpus="test@2")
    third = planned(store, "vanilla_rag[limits.calls=8]", asked, golds, None, elsewhere)
    await replayed(store, [third], asked, golds)
    assert len(elsewhere.asked) == 3
