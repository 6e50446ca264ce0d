"""Traces: attempts with everything recorded about them, read from the store and put together from flat events."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Request, SearchRequest, SearchResult
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import (
    Attempt,
    Call,
    Called,
    Entered,
    Event,
    Gold,
    Left,
    Noted,
    Passage,
    Question,
    Reply,
    Run,
    Score,
    Step,
)
from ragrounds.evals.store.attempt_notes import AttemptNote, notes_of
from ragrounds.evals.store.codec import Packed, unpack, unpack_many
from ragrounds.evals.store.store import Store


def steps(events: Iterable[Event]) -> tuple[Step, ...]:
    """The nodes that an attempt went through, in order of entry.

    Events outside of any node (an index below 0) make a step with an empty node name. A step that was entered and never
    left, because the attempt ended inside it, has no seconds.
    """
    built: dict[int, Step] = {}
    for event in events:
        if isinstance(event, Entered):
            built[event.step] = Step(index=event.step, node=event.node, at=event.at, seconds=None, parent=event.parent)
            continue
        step = built.get(event.step) or Step(index=event.step, node="", at=0.0, seconds=None)
        match event:
            case Called():
                step = replace(step, calls=(*step.calls, event.call))
            case Noted():
                step = replace(step, notes=(*step.notes, event))
            case Left():
                step = replace(step, seconds=event.seconds, changes=event.changes, error=event.error)
        built[event.step] = step
    return tuple(built.values())


def calls(events: Iterable[Event]) -> Iterator[Call]:
    """The calls of an attempt, in order."""
    return (event.call for event in events if isinstance(event, Called))


def node_path(events: Sequence[Event]) -> list[str]:
    """The names of the nodes in the order in which they were entered."""
    return [event.node for event in events if isinstance(event, Entered)]


class TracedCall(Struct, frozen=True):
    """A call with its request and response; both are ``None`` where the journal does not hold them (a failed call, an
    imported one)."""

    call: Call
    asked: Request | None = None
    reply: Reply | None = None
    searched: SearchRequest | None = None
    passages: tuple[Passage, ...] = ()
    when: str = ""
    """When the live corpus of a search was searched, UTC (:attr:`SearchResult.searched`); empty: it has a version."""
    used: object = None
    """What a tool was asked, as plain values; ``None``: the journal does not hold it."""
    gave: object = None
    """What a tool answered."""


class TracedStep(Struct, frozen=True):
    """A step with its calls."""

    node: str
    seconds: float | None
    calls: tuple[TracedCall, ...]
    notes: tuple[Noted, ...]
    changes: dict[str, object]
    error: str


class JudgeReply(Struct, frozen=True, kw_only=True):
    """What a judge replied about an attempt when it was asked for a score."""

    scorer: str
    judge: str
    """The judge's canonical text, such as ``openai:gpt-4o[temperature=0]``."""
    model: str = ""
    """What the server says that it is; empty: it does not say."""
    text: str
    told: bool = True
    """Whether the reply was found; if not, `judge` names every judge of the run, and `text` is empty."""


class Trace(Struct, frozen=True):
    """One attempt with its question, gold, scores, steps and calls."""

    run: Run
    question: Question
    gold: Gold
    attempt: Attempt
    scores: tuple[Score, ...]
    steps: tuple[TracedStep, ...]
    notes: tuple[AttemptNote, ...] = ()
    """Readers' marks and notes."""
    judged: tuple[JudgeReply, ...] = ()
    """What judges replied, where that was asked for (:mod:`ragrounds.evals.judges.recorded`)."""


def calls_of(trace: Trace) -> tuple[TracedCall, ...]:
    """The calls of an attempt in the order in which they were made, whatever step they belong to; none where the steps
    are left out."""
    entered = [step.index for step in steps(trace.attempt.events)]
    by_step = {index: iter(step.calls) for index, step in zip(entered, trace.steps, strict=False)}
    made = (next(by_step[event.step], None) for event in trace.attempt.events
            if isinstance(event, Called) and event.step in by_step)  # fmt: skip
    return tuple(call for call in made if call is not None)


def trace(store: Store, run: Run, question_id: str, epoch: int = 0) -> Trace:
    """The trace of one attempt. A question may be named by the end of its id (``12377809``).

    Raises:
        UserError: the run has no such question, or has not answered it yet.
    """
    question, gold = _question(store, run, question_id)
    attempt = store.attempt(run, question.id, epoch)
    if attempt is None:
        raise UserError(f"The run {run.id} has no attempt at {question.id!r} in epoch {epoch} yet.")
    scores = tuple(score for score in store.scores(run, question=question.id) if score.epoch == epoch)
    notes = notes_of(store, [run]).get((run.id, question.id, epoch), ())
    return Trace(run, question, gold, attempt, scores, _steps(store, attempt), notes)


def every_trace(store: Store, run: Run) -> Iterator[Trace]:
    """The traces of a run by question id. Questions and scores are read at once, attempts some hundreds at a time."""
    for bare in bare_traces(store, run):
        yield replace(bare, steps=_steps(store, bare.attempt))


def bare_traces(store: Store, run: Run) -> Iterator[Trace]:
    """As :func:`every_trace`, without steps and calls."""
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    scores: dict[tuple[str, int], list[Score]] = {}
    for score in store.scores(run):
        scores.setdefault((score.question_id, score.epoch), []).append(score)
    for attempt in store.attempts(run):
        id, found = attempt.question_id, tuple(scores.get((attempt.question_id, attempt.epoch), ()))
        yield Trace(run=run, question=by_id[id], gold=golds[id], attempt=attempt, scores=found, steps=())


class CallSource(Protocol):
    """What recorded calls are read from: a store, or a reader on a connection of its own."""

    def packed_calls(self, keys: Iterable[str], requests: bool = True) -> dict[str, tuple[bytes | None, bytes]]:
        """Key → request (``None`` without `requests`) and response, packed; those that are not there are left out."""

    def texts(self, hashes: Iterable[bytes]) -> Mapping[bytes, str]:
        """Long texts by their hashes."""


def traced_call(store: CallSource, call: Call) -> TracedCall:
    """A call with the request and response that the journal holds of it.

    Raises:
        DamagedRecord: what it holds does not match its checksum.
    """
    return traced_calls(store, [call], strict=True)[0]


def traced_calls(
    store: CallSource, calls: Sequence[Call], brief: bool = False, strict: bool = False
) -> tuple[TracedCall, ...]:
    """Calls with the requests and responses that the journal holds of them, read together; what is damaged or not there
    is left out.

    Args:
        store: holds the journal; or a reader of it.
        calls: of one attempt, or of several.
        brief: only what a row of a list says: queries, replies, and passages without their long texts. What a model was
            sent is left out.
        strict: what is damaged raises a DamagedRecord.
    """
    keyed = {call.key: call for call in calls if call.key}
    models = [key for key, call in keyed.items() if call.kind == "model"]
    packed = store.packed_calls([key for key, call in keyed.items() if call.kind != "model"])
    packed |= store.packed_calls(models, requests=not brief)
    records: list[Packed] = []
    places: list[str] = []
    for key, (asked, gave) in packed.items():
        kinds = _KINDS[keyed[key].kind]
        records += [] if asked is None else [Packed(asked, kinds[0])]
        records.append(Packed(gave, kinds[1], whole=not (brief and kinds[1] is SearchResult)))
        places += [key] * (len(records) - len(places))
    read: dict[str, list[object]] = {}
    for key, packed_record, record in zip(places, records, unpack_many(records, store.texts), strict=True):
        if record is None and strict:
            unpack(packed_record.data, packed_record.kind, store.texts)  # raises
        read.setdefault(key, []).append(record)
    return tuple(_traced(call, read.get(call.key, ())) for call in calls)


_KINDS: dict[str, tuple[type[object], type[object]]] = {
    "model": (Request, Reply),
    "search": (SearchRequest, SearchResult),
    "tool": (dict, dict),
}


def _traced(call: Call, read: Sequence[object]) -> TracedCall:
    """A call with what was read of it: request and response, or the response alone."""
    if not read or any(record is None for record in read):
        return TracedCall(call)
    asked, gave = read[0], read[-1]
    if isinstance(asked, dict) and "messages" in asked:  # an address that an agent's file lists
        asked, gave = msgspec.convert(asked, Request), msgspec.convert(gave, Reply)
    if isinstance(gave, SearchResult):
        searched = asked if isinstance(asked, SearchRequest) else None
        return TracedCall(call, searched=searched, passages=gave.passages, when=gave.searched)
    if isinstance(gave, Reply):
        return TracedCall(call, asked=asked if isinstance(asked, Request) else None, reply=gave)
    return TracedCall(call, used=asked, gave=gave)


class FoundPassages(Struct, frozen=True):
    """What one search returned."""

    query: str
    passages: tuple[Passage, ...]


def searches_by(
    store: Store, attempt: Attempt, read: dict[str, FoundPassages] | None = None
) -> tuple[FoundPassages, ...]:
    """What one attempt's searches returned, in order; `read` keeps what was read, by the calls' keys."""
    known = {} if read is None else read
    asked = [call.key for call in calls(attempt.events) if call.kind == "search" and call.key and not call.error]
    for key in asked:
        if key not in known:
            recorded = store.call(key, SearchRequest, SearchResult)
            known[key] = FoundPassages(recorded[0].query, recorded[1].passages) if recorded else FoundPassages("", ())
    return tuple(known[key] for key in asked)


def _steps(store: Store, attempt: Attempt) -> tuple[TracedStep, ...]:
    made = steps(attempt.events)
    traced = iter(traced_calls(store, [call for step in made for call in step.calls], strict=True))
    return tuple(
        TracedStep(
            step.node,
            step.seconds,
            tuple(itertools.islice(traced, len(step.calls))),
            step.notes,
            step.changes,
            step.error,
        )
        for step in made
    )


def _question(store: Store, run: Run, wanted: str) -> tuple[Question, Gold]:
    """The one question of a run with this id, or whose id ends with it, and its gold; no other is decoded."""
    ended = store.questions_named(run, wanted)
    found = [one for one in ended if one.question.id == wanted] or ended
    if len(found) == 1:
        return found[0].question, found[0].gold
    if found:
        raise UserError(f"{wanted!r} names several questions: {', '.join(one.question.id for one in found)}.")
    near = nearest(wanted, [question.id for question in store.questions(run)[0]])
    raise UserError(f"The run {run.id} has no question {wanted!r}.{near}")


def traces_by_question(store: Store, runs: Sequence[Run]) -> Iterator[Trace]:
    """The traces of several runs, ordered so that those of one question follow each other."""
    return heapq.merge(
        *(every_trace(store, run) for run in runs), key=lambda trace: (trace.question.id, trace.attempt.epoch)
    )
