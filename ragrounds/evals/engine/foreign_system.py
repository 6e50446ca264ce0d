"""Running a system that is not ours: one attempt, recorded, held to its caps and ended as any other."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from ragrounds.agents.systems.in_process import passages_of
from ragrounds.base.contracts import Context, Entry, Request, SearchRequest, SearchResult, Server, System
from ragrounds.base.errors import AskedPerson, StopRun
from ragrounds.base.records import DRAWN, Answer, Called, Passage, Question, Reply, Usage
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
from ragrounds.recorder.clock import drawing
from ragrounds.recorder.forms import heard
from ragrounds.recorder.watch import installed, keep_watching
from ragrounds.recorder.wire import WATCHER, Unsent

R = TypeVar("R", bound=Reply)
_GRACE = 5.0
"""Seconds that a system has to end once nothing of it may leave the process any more."""


CHANGED = "counterfactuals change what retrievers and tools of LangChain, and retrievers of LlamaIndex, give"
"""Which searches of a system's own can be changed."""
SOURCES = "sources of the answer"
"""What passages are known to come from that a system gives with its answer, where no search of it was seen."""

_LOOK = 0.02
"""Seconds after which is looked again."""


class _Asked(NamedTuple):
    """A model call that the system's callbacks tell of."""

    actor: str
    provider: str
    model: str
    kind: str
    """The class of the model."""
    call: StartedCall


class AttemptObservation:
    """What a system tells of one attempt (contract: :class:`ragrounds.base.contracts.Observation`)."""

    def __init__(self, context: AttemptContext, recorder: AttemptRecorder | None, journal: StoreJournal) -> None:
        self._context = context
        self.context: Context = context
        # Steps and remarks are the attempt's own.
        self.left, self.note = context.left, context.note
        self._recorder = recorder
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self.thread = uuid4().hex
        self.max_steps = MAX_STEPS
        self.changes = context.change is not None
        self._asked: dict[str, _Asked] = {}
        self._searches: AttemptSearches | None = None
        if recorder is not None:
            recorder.searches = self._searches = AttemptSearches(self._read)
            recorder.change = self._change

    async def ask(self, server: Server[R], request: Request, kind: type[R], *, role: str = "answering") -> R:
        """Have a server answer, as a model is asked."""
        return await self._context.complete(server, request, kind, role=role, prices=self._context.prices)

    def entered(self, task: str, node: str, inside: str = "") -> None:
        """Note that a step began."""
        self._context.entered(task, node, inside)

    def model_called(self, token: str, what: str, begun: bool) -> None:
        """Note that a model call ended: one behind which nothing was seen at the wire is not recorded."""
        if not begun and self._recorder and token not in self._recorder.wired:
            self.unseen(what)
            self._context.add_cost(None, None, False)

    def model_started(self, token: str, provider: str, model: str, kind: str) -> None:
        """Note that a model call began.

        Raises:
            Unsent: a cap is reached.
        """
        try:
            self._context.check_caps()
        except AttemptEnded as capped:
            if self._recorder:
                self._recorder.end(capped)
        actor = f"{provider}:{model}" if provider else model
        self._asked[token] = _Asked(actor, provider, model, kind, self._context.begin_call(actor, "answering"))

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
        """Count that call, where nothing was seen at the wire behind it: then it cannot be replayed."""
        asked = self._asked.pop(token, None)
        if asked is None or (self._recorder and token in self._recorder.wired):
            return
        if error:
            if self._recorder is None or self._recorder.stop is None:
                self._context.end_call(asked.call, asked.actor, usage=Usage(), error=error)
                self._context.add_cost(Usage(), None, False)  # what it cost is not known
                self.unseen(f"a model of class {asked.kind}")
            return
        counted, note = read_usage(usage)
        price = None if counted is None else listed_price(asked.provider, asked.model, counted)
        self._context.last_reply = text or self._context.last_reply
        self._context.end_call(asked.call, asked.actor, model=model, cached=cached, usage=counted, price=price)
        if note:
            self._context.note("reply", note)
        self.unseen("an answer of LangChain's cache" if cached else f"a model of class {asked.kind}")

    def found(
        self,
        query: str,
        passages: Sequence[Mapping[str, object]],
        tool: str,
        *,
        node: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Record a search inside the system's process, as one that its attempt made."""
        if self._searches is None or self._searches.told(query, [str(one.get("text") or "") for one in passages]):
            self.searched(query, passages_of(passages), safe(tool, 100), node=node, seconds=seconds)

    def _change(self, asked: bytes) -> bytes:
        """Record a search that can be changed; gives what it is to give, as JSON; empty: what it found."""
        told = json.loads(asked)  # a score may be infinite
        found = passages_of(told.pop("passages"))
        # By this mark a passage is known again, whatever a change makes of it.
        given = marked = tuple(msgspec.structs.replace(one, retriever=f"\0{at}") for at, one in enumerate(found))
        places = {one.retriever: at for at, one in enumerate(marked)}
        if self._searches is None or self._searches.told(told["query"], [one.text for one in found]):
            given = self.searched(passages=given, **{**told, "tool": safe(told["tool"], 100)}, can_change=True)
        if given == marked:
            return b""
        return msgspec.json.encode(
            [{**msgspec.structs.asdict(one), "at": places.get(one.retriever, -1)} for one in given]
        )

    def handed_on(self, query: str) -> None:
        """Know the result of a tool again where it is sent to a model."""
        if self._searches is not None:
            self._searches.used(query)

    def _read(self, query: str, passages: Sequence[Mapping[str, object]], tool: str, corpus: str) -> None:
        """Record a search that stands in a recorded call."""
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
        """Record a search whose passages are our own records; gives what it is to give."""
        if named := _options_in(query, self._context.item):
            self._context.note(OPTIONS_SEARCHED, f"{', '.join(named)}: {query[:200]}")
        self._context.made_searches += 1
        given = whole = tuple(passages)
        if (change := self._context.change) is not None:
            given = change.passages(self._context.made_searches, whole)
        if given != whole and not can_change:
            why = StopRun(f"What {tool} finds cannot be changed: {CHANGED}.")
            if self._recorder is None:
                raise why
            self._recorder.end(why)
        kept = tuple(
            msgspec.structs.replace(passage, retriever=tool, rank=passage.rank or rank)
            for rank, passage in enumerate(passages, 1)
        )
        request = SearchRequest(corpus=corpus, query=query, k=len(kept))
        key = hashlib.sha256(msgspec.msgpack.encode(("seen", tool, request, kept))).hexdigest()
        begun = self._context.begin_call(tool, query, "search")
        at, start = begun.at - seconds, time.perf_counter() - seconds
        begun = begun._replace(at=at, start=start, node=node or begun.node)
        entry = Entry(key=key, kind="search", actor=tool, request=request)
        self._loop.call_soon_threadsafe(self._journal.keep, entry, SearchResult(kept))
        self._context.end_call(
            begun,
            tool,
            role="searching",
            kind="search",
            key=key,
            price=0.0,
            passages=tuple(passage.id for passage in given),
        )
        return given

    def unseen(self, what: str) -> None:
        """Count a call that cannot be replayed; a replay ends by it."""
        if self._recorder:
            self._recorder.unseen(what)


def _options_in(query: str, item: Question) -> list[str]:
    """The letters of options whose text a query holds, where these are two or more: one may be a guess of the model's.
    What the question itself says does not count."""
    searched, asked = plain_query(query), plain_query(item.text)
    texts = {letter: plain_query(text) for letter, text in item.options.items()}
    named = [letter for letter, text in texts.items() if len(text) > 1 and text in searched and text not in asked]
    return named if len(named) > 1 else []


async def run_system(system: System, context: AttemptContext, journal: StoreJournal) -> Answer:
    """Have a system answer the attempt's question.

    Raises:
        AttemptEnded: a cap is reached, or the system asked a person and nobody is there.
        StopRun: the journal cannot be written, or a replay does not hold a call.
    """
    seconds, drawn = context.limits.seconds, context.drawn
    try:
        async with asyncio.timeout(seconds) as cap:
            with drawing(drawn.values if drawn else None):
                if system.takes_context:
                    return await system.answer(context.item, AttemptObservation(context, None, journal))
                return await watched_answer(system, context, AttemptRecorder(context, journal), journal)
    except TimeoutError as error:
        if not cap.expired():  # a time-out of the system's own
            raise
        raise AttemptEnded("capped", f"the attempt's cap of {seconds or 0:g} seconds is reached") from error
    except AskedPerson as asked:
        raise AttemptEnded("paused", f"the system asked a person: {' '.join(str(asked).split())[:300]}") from asked
    finally:
        if drawn and (said := drawn.end(journal)):
            context.note(DRAWN, said)


async def watched_answer(
    system: System, context: AttemptContext, recorder: AttemptRecorder, journal: StoreJournal
) -> Answer:
    """Have a system answer while its calls are watched.

    Raises:
        AttemptEnded, StopRun: why nothing may leave the process any more, whatever the system made of it.
        Exception: the system's own.
    """
    with installed(closed=recorder.closed):
        seen = AttemptObservation(context, recorder, journal)
        token = WATCHER.set(recorder)
        try:
            with heard(seen):
                answering = asyncio.ensure_future(system.answer(context.item, seen))
        finally:
            WATCHER.reset(token)
        ended = asyncio.ensure_future(recorder.ended.wait())
        try:
            await asyncio.wait({answering, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():  # it holds on to what it was refused
                await asyncio.wait({answering}, timeout=_GRACE)
        finally:
            ended.cancel()
            if not answering.done():
                # A thread of it that goes on is refused whatever it asks.
                recorder.over = recorder.cut_off = True
                keep_watching()
                answering.cancel()
                await asyncio.wait({answering}, timeout=_GRACE)
            elif context.in_flight:
                await _landed(context)
            recorder.close()
            _settle(context, recorder)
    searched = any(isinstance(event, Called) and event.call.kind == "search" for event in context.events)
    answered = answering.done() and not answering.cancelled() and answering.exception() is None
    if not searched and not (answered and answering.result().passages):
        context.note(NOT_HEARD, NOT_HEARD_WORDS)
    if recorder.stop is not None:
        raise recorder.stop
    try:
        answer = answering.result()
        if answer.passages and not searched:
            seen.searched(context.item.text, answer.passages, SOURCES)
        return answer
    except Unsent as refused:  # of another attempt: a pool's thread, perhaps
        raise RuntimeError(f"a call was refused: {refused}") from refused


async def _landed(context: AttemptContext) -> None:
    """Wait a moment for the calls that a system has left in flight: they are paid for, and count."""
    for _ in range(round(_GRACE / _LOOK)):
        if not context.in_flight:
            return
        await asyncio.sleep(_LOOK)


def _settle(context: AttemptContext, recorder: AttemptRecorder) -> None:
    """Say what was seen. Where it was no call but searches, the attempt's tokens and cost are not known."""
    context.missed = recorder.missed.total()
    if not was_heard(context.events) and recorder.stop is None:
        context.note("tier", "only timed: no call was recorded")
        context.usage = context.cost_paid = context.cost_uncached = context.billable = None
