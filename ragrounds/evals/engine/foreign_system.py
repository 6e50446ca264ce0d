"""Running a foreign system: one attempt, recorded, held to its caps and ended like any other."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from ragrounds.agents.systems.in_process import passages_of
from ragrounds.base.contracts import Context, Entry, Request, SearchRequest, SearchResult, Server, System
from ragrounds.base.errors import AskedPerson, StopRun
from ragrounds.base.records import DRAWN, Answer, Called, Passage, Question, Reply, Usage
from ragrounds.base.spent import Spent
from ragrounds.base.text import safe
from ragrounds.evals.engine.attempt_log import MAX_STEPS, AttemptEnded, StartedCall
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.engine.recording.recorder import AttemptRecorder
from ragrounds.evals.engine.recording.searches import AttemptSearches
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.trace.hops import NOT_HEARD, NOT_HEARD_WORDS, SYSTEMS_OWN, plain_query
from ragrounds.evals.trace.run_facts import OPTIONS_SEARCHED, was_heard
from ragrounds.models.langchain import read_usage
from ragrounds.models.prices import listed_price
from ragrounds.models.reply_parts import cache_writes
from ragrounds.recorder.clock import VALUES
from ragrounds.recorder.forms import observe_libraries
from ragrounds.recorder.watch import installed, keep_watching
from ragrounds.recorder.wire import WATCHER, Unsent, setting

R = TypeVar("R", bound=Reply)
_GRACE = 5.0
"""Seconds that a system has to end once no call of it may leave the process any more."""


CHANGED = "counterfactuals change what retrievers and tools of LangChain, and retrievers of LlamaIndex, give"
"""Searches inside a user's system that a counterfactual can change."""
SOURCES = "sources of the answer"
"""Name of the source of passages that a system returns with its answer, if no search of it was seen."""

_LOOK = 0.02
"""Seconds between two checks."""


class _ReportedCall(NamedTuple):
    """Model call that the system's callbacks report."""

    provider: str
    model: str
    kind: str
    """Class of the model."""
    call: StartedCall


class AttemptObservation:
    """Observation of one attempt, for a system's reports (contract: :class:`ragrounds.base.contracts.Observation`)."""

    def __init__(self, context: AttemptContext, recorder: AttemptRecorder | None, journal: StoreJournal) -> None:
        self._context = context
        self.context: Context = context
        # Steps and notes go directly to the attempt's log.
        self.left, self.note = context.left, context.note
        self._recorder = recorder
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self.thread = uuid4().hex
        self.max_steps = MAX_STEPS
        self.changes = context.change is not None
        self._reported_calls: dict[str, _ReportedCall] = {}
        self._searches: AttemptSearches | None = None
        if recorder is not None:
            recorder.searches = self._searches = AttemptSearches(self._read)
            recorder.change = self._change

    async def ask(self, server: Server[R], request: Request, kind: type[R], *, role: str = "answering") -> R:
        """Let a server answer, as a model is asked."""
        return await self._context.complete(server, request, kind, role=role, prices=self._context.prices)

    def entered(self, task: str, node: str, inside: str = "") -> None:
        """Record that a step began."""
        self._context.entered(task, node, inside)

    def model_called(self, token: str, label: str, has_begun: bool) -> None:
        """Record that a model call ended. It counts as not recorded if no request at the wire belongs to it."""
        if not has_begun and self._recorder and token not in self._recorder.wired:
            self.unseen(label)
            self._context.add_cost(None, None, False)

    def model_started(self, token: str, provider: str, model: str, kind: str) -> None:
        """Record that a model call began.

        Raises:
            Unsent: a cap is reached.
        """
        try:
            self._context.check_caps()
        except AttemptEnded as capped:
            if self._recorder:
                self._recorder.end(capped)
        actor = f"{provider}:{model}" if provider else model
        started = self._context.begin_call(actor)
        self._reported_calls[token] = _ReportedCall(provider, model, kind, started)

    def model_ended(
        self,
        token: str,
        *,
        text: str = "",
        model: str = "",
        usage: Mapping[str, object] | None = None,
        cached: bool = False,
        error: str = "",
    ) -> None:
        """Count the call if no request at the wire belongs to it: then it cannot be replayed."""
        reported = self._reported_calls.pop(token, None)
        if reported is None or (self._recorder and token in self._recorder.wired):
            return
        if error:
            if self._recorder is None or self._recorder.stop is None:
                self._context.end_call(reported.call, usage=Usage(), error=error)
                self._context.add_cost(Usage(), None, False)  # its cost is not known
                self.unseen(f"a model of class {reported.kind}")
            return
        counted, note = read_usage(usage)
        writes = cache_writes(usage, counted)
        price = None if counted is None else listed_price(reported.provider, reported.model, counted, writes)
        self._context.last_reply = text or self._context.last_reply
        self._context.end_call(reported.call, model=model, cached=cached, usage=counted, price=price)
        if note:
            self._context.note("reply", note)
        self.unseen("an answer of LangChain's cache" if cached else f"a model of class {reported.kind}")

    def search_returned(
        self,
        query: str,
        passages: Sequence[Mapping[str, object]],
        tool: str,
        *,
        node: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Record a search inside the system's process, as one that its attempt made."""
        if self._searches is None or self._searches.is_new(
            query, [str(passage.get("text") or "") for passage in passages]
        ):
            self.searched(query, passages_of(passages), safe(tool, 100), node=node, seconds=seconds)

    def _change(self, message: bytes) -> bytes:
        """Record a search that can be changed. Return its changed passages as JSON; empty if they are unchanged."""
        search = json.loads(message)  # a score may be infinite
        passages = passages_of(search.pop("passages"))
        # The mark identifies a passage after a change.
        changed = marked = tuple(
            msgspec.structs.replace(passage, retriever=f"\0{index}") for index, passage in enumerate(passages)
        )
        original_index = {passage.retriever: index for index, passage in enumerate(marked)}
        if self._searches is None or self._searches.is_new(search["query"], [passage.text for passage in passages]):
            changed = self.searched(passages=changed, **{**search, "tool": safe(search["tool"], 100)}, can_change=True)
        if changed == marked:
            return b""
        return msgspec.json.encode(
            [
                {**msgspec.structs.asdict(passage), "at": original_index.get(passage.retriever, -1)}
                for passage in changed
            ]
        )

    def handed_on(self, query: str) -> None:
        """Remember the result of a tool, so that it is recognized when it is sent to a model."""
        if self._searches is not None:
            self._searches.used(query)

    def _read(self, query: str, passages: Sequence[Mapping[str, object]], tool: str, corpus: str) -> None:
        """Record a search whose results are in a recorded call."""
        self.searched(query, passages_of(passages), safe(tool, 100), corpus=corpus)

    def searched(
        self,
        query: str,
        passages: Sequence[Passage],
        tool: str,
        *,
        corpus: str = SYSTEMS_OWN,
        node: str = "",
        seconds: float = 0.0,
        can_change: bool = False,
    ) -> tuple[Passage, ...]:
        """Record a search whose passages are our own records, and return the passages after a change."""
        if letters := _options_in(query, self._context.item):
            self._context.note(OPTIONS_SEARCHED, f"{', '.join(letters)}: {query[:200]}")
        self._context.made_searches += 1
        returned = original = tuple(passages)
        if (change := self._context.change) is not None:
            returned = change.passages(self._context.made_searches, original)
        if returned != original and not can_change:
            error = StopRun(f"What {tool} finds cannot be changed: {CHANGED}.")
            if self._recorder is None:
                raise error
            self._recorder.end(error)
        ranked = tuple(
            msgspec.structs.replace(passage, retriever=tool, rank=passage.rank or rank)
            for rank, passage in enumerate(passages, 1)
        )
        request = SearchRequest(corpus=corpus, query=query, k=len(ranked))
        key = hashlib.sha256(msgspec.msgpack.encode(("seen", tool, request, ranked))).hexdigest()
        started = self._context.begin_call(tool, "search", "searching")
        started_at, start = started.started_at - seconds, time.perf_counter() - seconds
        started = started._replace(started_at=started_at, start=start, node=node or started.node)
        entry = Entry(key=key, kind="search", actor=tool, request=request)
        self._loop.call_soon_threadsafe(self._journal.keep, entry, SearchResult(ranked))
        self._context.end_call(
            started,
            key=key,
            price=0.0,
            passages=tuple(passage.id for passage in returned),
        )
        return returned

    def unseen(self, label: str) -> None:
        """Count a call that cannot be replayed; it ends a replay."""
        if self._recorder:
            self._recorder.unseen(label)


def _options_in(query: str, item: Question) -> list[str]:
    """Return the letters of options whose text a query contains, if there are two or more: a single one may be a guess
    of the model's. Text that is also in the question does not count.
    """
    searched, question_text = plain_query(query), plain_query(item.text)
    texts = {letter: plain_query(text) for letter, text in item.options.items()}
    letters = [
        letter for letter, text in texts.items() if len(text) > 1 and text in searched and text not in question_text
    ]
    return letters if len(letters) > 1 else []


async def run_system(system: System, context: AttemptContext, journal: StoreJournal) -> Answer:
    """Let a system answer the attempt's question.

    Raises:
        AttemptEnded: a cap is reached, or the system asked a person, which is impossible here.
        StopRun: the journal cannot be written, or a call is missing from it in a replay.
    """
    seconds, recorded_randomness = context.limits.seconds, context.recorded_randomness
    try:
        async with asyncio.timeout(seconds) as cap:
            with setting(VALUES, recorded_randomness.values if recorded_randomness else None):
                if system.takes_context:
                    return await system.answer(context.item, AttemptObservation(context, None, journal))
                return await watched_answer(system, context, AttemptRecorder(context, journal), journal)
    except TimeoutError as error:
        if not cap.expired():  # a time-out inside the system
            raise
        raise AttemptEnded("capped", f"the attempt's cap of {seconds or 0:g} seconds is reached") from error
    except AskedPerson as question:
        raise AttemptEnded(
            "paused", f"the system asked a person: {' '.join(str(question).split())[:300]}"
        ) from question
    finally:
        if recorded_randomness and (note := recorded_randomness.end(journal)):
            context.note(DRAWN, note)


async def watched_answer(
    system: System, context: AttemptContext, recorder: AttemptRecorder, journal: StoreJournal
) -> Answer:
    """Let a system answer while its calls are watched.

    Raises:
        AttemptEnded, StopRun: the reason why no call may leave the process any more, whatever the system did with it.
        Exception: the system's own.
    """
    with installed(closed=recorder.closed):
        observation = AttemptObservation(context, recorder, journal)
        with setting(WATCHER, recorder), observe_libraries(observation):
            answer_task = asyncio.ensure_future(system.answer(context.item, observation))
        try:
            either: set[asyncio.Future[Any]] = {answer_task, recorder.ended}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer_task.done():  # the system continues although a call was refused
                await asyncio.wait({answer_task}, timeout=_GRACE)
        finally:
            if not answer_task.done():
                # If a thread of the system continues, all its calls are refused.
                recorder.over = recorder.cut_off = True
                keep_watching()
                answer_task.cancel()
                await asyncio.wait({answer_task}, timeout=_GRACE)
            elif context.in_flight:
                await _wait_for_calls(context)
            recorder.close()
            context.missed = recorder.missed.total()
            # If there was no call except searches, the attempt's tokens and cost are not known.
            if not was_heard(context.events) and recorder.stop is None:
                context.note("tier", "only timed: no call was recorded")
                context.spent, context.billable = Spent(usage=None, cost_paid=None, cost_uncached=None), None
    searched = any(isinstance(event, Called) and event.call.kind == "search" for event in context.events)
    answered = answer_task.done() and not answer_task.cancelled() and answer_task.exception() is None
    if not searched and not (answered and answer_task.result().passages):
        context.note(NOT_HEARD, NOT_HEARD_WORDS)
    if recorder.stop is not None:
        raise recorder.stop
    try:
        answer = answer_task.result()
        if answer.passages and not searched:
            observation.searched(context.item.text, answer.passages, SOURCES)
        return answer
    except Unsent as refused:  # raised for another attempt, perhaps in a pool's thread
        raise RuntimeError(f"a call was refused: {refused}") from refused


async def _wait_for_calls(context: AttemptContext) -> None:
    """Wait a short time for the calls that a system has left in flight: they are paid for, and count."""
    for _ in range(round(_GRACE / _LOOK)):
        if not context.in_flight:
            return
        await asyncio.sleep(_LOOK)
