"""A small store with every kind of attempt, the same in every test: fixed times, fixed figures."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.records import (
    Attempt,
    Call,
    Called,
    Entered,
    Event,
    Fault,
    Gold,
    Left,
    Message,
    Noted,
    Passage,
    Question,
    Reply,
    Run,
    Score,
    Usage,
)
from ragrounds.evals.engine.context import SearchRequest, SearchResult
from ragrounds.evals.scorers.catalogue import all_scorers, scorer_code
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store

AT = 1_800_000_000.0
SUBJECTS = ("cardiology", "neurology")


def question(number: int, text: str = "") -> Question:
    return Question(
        id=f"quiz/{number:03}",
        benchmark="quiz",
        text=text or f"Which remedy helps in case {number}?",
        options={"A": "Aspirin", "B": "Bed rest", "C": "Caution"},
        group=SUBJECTS[number % 2],
    )


def bare_run(agent: str, asked: Sequence[Question], epochs: int = 1) -> Run:
    return Run(
        id=agent.partition("[")[0] + "-run",
        agent=agent,
        benchmark="quiz",
        questions=hashlib.sha256(repr([one.id for one in asked]).encode()).hexdigest(),
        count=len(asked),
        epochs=epochs,
        fingerprint=hashlib.sha256(agent.encode()).hexdigest(),
        identity={},
        created=AT,
    )


def make_run(store: Store, agent: str, count: int, epochs: int = 1, questions: Sequence[Question] = ()) -> Run:
    asked = list(questions) or [question(number) for number in range(count)]
    run = bare_run(agent, asked, epochs)
    golds = {one.id: Gold(question_id=one.id, answer="A", documents=("doc1",)) for one in asked}
    store.add_run(run, asked, golds)
    return run


class Journal:
    """Records calls in a store's journal as a run would."""

    def __init__(self, store: Store) -> None:
        self._journal = StoreJournal(store)
        self._made = 0

    def record(self, kind: Any, actor: str, request: Any, response: Any) -> str:
        self._made += 1
        key = hashlib.sha256(f"{self._made}{actor}".encode()).hexdigest()

        async def answer() -> Any:
            return response

        async def go() -> None:
            await self._journal.once(Entry(key=key, kind=kind, actor=actor, request=request), answer, type(response))

        # In a thread of its own: a test may have an event loop already.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(go())).result()
        return key

    def close(self) -> None:
        self._journal.close()


def passages(number: int, extra: str = "") -> tuple[Passage, ...]:
    return tuple(
        Passage(
            id=f"doc{rank}#{number}",
            document=f"doc{rank}",
            title=f"Chapter {rank}",
            text=f"Passage {rank} found in round {number}: aspirin thins the blood.{extra}",
            corpus="books@1",
            score=9.0 - rank,
            rank=rank,
            retriever="bm25",
        )
        for rank in (1, 2)
    )


def search_call(journal: Journal, node: str, query: str, found: tuple[Passage, ...]) -> Call:
    request = SearchRequest(corpus="books@1", query=query, k=2)
    key = journal.record("search", "bm25", request, SearchResult(found))
    return Call(
        key=key, kind="search", role="searching", node=node, actor="bm25", at=AT, seconds=0.5, cost_uncached=0.0,
        passages=tuple(one.id for one in found),
    )  # fmt: skip


def model_call(
    journal: Journal, node: str, prompt: str, reply: str, role: str = "answering", faults: tuple[Fault, ...] = ()
) -> Call:
    request = Request(messages=(Message("system", "You are careful."), Message("user", prompt)))
    key = journal.record("model", "openai:tiny", request, Reply(text=reply, usage=Usage(100, 20), model="tiny-1"))
    return Call(
        key=key, kind="model", role=role, node=node, actor="openai:tiny", at=AT, seconds=1.5,
        usage=Usage(100, 20), cost_uncached=0.01, faults=faults,
    )  # fmt: skip


def step(index: int, node: str, *calls: Call, error: str = "", changes: dict[str, Any] | None = None) -> list[Event]:
    """A step of 2 seconds at most; it begins when the one before it has ended."""
    seconds, begun = sum(call.seconds for call in calls), AT + 2 * index
    ends = list(itertools.accumulate((call.seconds for call in calls), initial=begun))
    return [
        Entered(step=index, node=node, at=begun),
        *(Called(step=index, call=replace(call, at=at)) for call, at in zip(calls, ends, strict=False)),
        Left(step=index, seconds=seconds, changes=changes or {}, error=error),
    ]


def rounds(journal: Journal, times: int) -> list[Event]:
    """An attempt that searches and reads `times` times, then answers."""
    events: list[Event] = []
    for number in range(times):
        found = passages(number)
        events += step(2 * number, "search", search_call(journal, "search", f"query {number}", found))
        prompt = f"Read: {found[0].text}"
        reading = model_call(journal, "read", prompt, f"Kept in round {number}: aspirin.", role="reading")
        events += step(2 * number + 1, "read", reading)
    retried = (Fault(kind="rate_limit", message="slow down", status=429, waited=2.0),)
    answer = model_call(journal, "answer", "Now **answer**.", "The answer is **A**, by [this](http://x.example).",
                        faults=retried)  # fmt: skip
    return [*events, *step(2 * times, "answer", answer, changes={"answer": "A"})]


def attempt(run: Run, number: int, events: Sequence[Event], status: Any = "completed", epoch: int = 0) -> Attempt:
    calls = [event.call for event in events if isinstance(event, Called)]
    models = [call for call in calls if call.kind == "model"]
    return Attempt(
        run=run.id,
        question_id=f"quiz/{number:03}",
        epoch=epoch,
        status=status,
        text="A" if status == "completed" else "",
        reason="" if status == "completed" else "the server went away",
        usage=Usage(100 * len(models), 20 * len(models)),
        cost_paid=0.01 * len(models),
        cost_uncached=0.01 * len(models),
        seconds=float(len(events) + number),
        at=AT + number,
        model_calls=sum(call.kind == "model" for call in calls),
        searches=sum(call.kind == "search" for call in calls),
        events=tuple(_later(event, number) for event in events),
    )


def _later(event: Event, seconds: float) -> Event:
    if isinstance(event, Called):
        return replace(event, call=replace(event.call, at=event.call.at + seconds)) if event.call.at else event
    return replace(event, at=event.at + seconds) if isinstance(event, Entered) and event.at else event


def score(number: int, right: bool, answer_status: Any = "answered", scorer: str = "strict", epoch: int = 0) -> Score:
    return Score(
        question_id=f"quiz/{number:03}",
        epoch=epoch,
        scorer=scorer,
        value=float(right),
        answer_status=answer_status,
        prediction="A" if right else "B",
        code=scorer_code(all_scorers()[scorer]) if scorer in all_scorers() else "",  # not made again when read
    )


def quiz_store(folder: Path) -> Store:
    """Two agents and six questions. `plain`: right, wrong, abstained, failed, right, not run. `seeker`: searches in
    three rounds; right on 0 and 1, wrong on 4."""
    store = Store(folder)
    fill(store)
    return store


def fill(store: Store) -> None:
    """Write the quiz into an empty store."""
    journal = Journal(store)
    plain, seeker = make_run(store, "plain", 6), make_run(store, "seeker[rounds=3]", 6)
    single = [
        step(0, "answer", model_call(journal, "answer", f"Case {number}?", f"Reply {number}.")) for number in range(5)
    ]
    broken = Call(key="", kind="model", role="answering", node="answer", actor="openai:tiny", at=AT, seconds=3.0,
                  faults=(Fault(kind="server", message="no", status=500, waited=1.0),), error="gone")  # fmt: skip
    single[3] = [
        Entered(step=0, node="answer", at=AT),
        Called(step=0, call=broken),
        Noted(step=0, what="traceback", text="Traceback: it broke"),
    ]
    kinds = ["completed", "completed", "completed", "failed", "completed"]
    store.add_attempts(
        plain,
        [attempt(plain, number, single[number], kinds[number]) for number in range(5)],
        [
            score(0, True),
            score(1, False),
            score(2, False, "abstained"),
            score(3, False, "empty"),
            score(4, True),
            score(0, True, scorer="mirage"),
            score(2, True, "abstained", scorer="mirage"),
        ],
    )
    searched = [rounds(journal, 3) for _ in (0, 1, 4)]
    store.add_attempts(
        seeker,
        [attempt(seeker, number, events) for number, events in zip((0, 1, 4), searched, strict=True)],
        [score(0, True), score(1, True), score(4, False)],
    )
    journal.close()
