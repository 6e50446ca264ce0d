"""Traces: attempts with everything recorded about them, read from the store and assembled from flat events."""

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
    AttemptKey,
    Call,
    Called,
    Entered,
    Event,
    Fault,
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
from ragrounds.base.text import listed
from ragrounds.evals.store.attempt_notes import AttemptNote, notes_of
from ragrounds.evals.store.codec import Packed, unpack, unpack_many
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.store import Store


def steps(events: Iterable[Event]) -> tuple[Step, ...]:
    """Return the nodes that an attempt went through, in order of entry.

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
    """Yield the calls of an attempt, in order."""
    for event in events:
        if isinstance(event, Called):
            yield event.call


def retried_faults(call: Call) -> tuple[Fault, ...]:
    """Return the tries after which the call was made again: all but the last one of a call without an answer."""
    if not call.faults:
        return ()
    has_no_answer = bool(call.error) or any(fault.kind == "blocked" for fault in call.faults)
    return call.faults[: len(call.faults) - has_no_answer]


def node_path(events: Sequence[Event]) -> list[str]:
    """Return the names of the nodes in the order in which they were entered."""
    return [event.node for event in events if isinstance(event, Entered)]


class TracedCall(Struct, frozen=True):
    """Call with its request and response. Both are ``None`` if they are not in the journal (a failed call, an imported
    one).
    """

    call: Call
    asked: Request | None = None
    reply: Reply | None = None
    searched: SearchRequest | None = None
    passages: tuple[Passage, ...] = ()
    when: str = ""
    """Time (UTC) at which the live corpus of a search was searched (:attr:`SearchResult.searched`); empty if the corpus
    has a version.
    """
    used: object = None
    """Arguments of a tool, as plain values; ``None`` if they are not in the journal."""
    gave: object = None
    """Answer of a tool."""


class TracedStep(Struct, frozen=True):
    """Step with its calls."""

    node: str
    seconds: float | None
    calls: tuple[TracedCall, ...]
    notes: tuple[Noted, ...]
    changes: dict[str, object]
    error: str


class JudgeReply(Struct, frozen=True, kw_only=True):
    """Reply of a judge that was asked to score an attempt."""

    scorer: str
    judge: str
    """Canonical text of the judge, such as ``openai:gpt-4o[temperature=0]``."""
    model: str = ""
    """Name of the model that the server reports; empty if it reports none."""
    text: str
    told: bool = True
    """True if the reply was found. If not, `judge` names every judge of the run, and `text` is empty."""


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
    """Replies of judges, if they were requested (:mod:`ragrounds.evals.judges.recorded`)."""
    given_name: str = ""
    """Name that the run was given; empty if none."""


def calls_of(trace: Trace) -> tuple[TracedCall, ...]:
    """Return the calls of an attempt in the order in which they were made, regardless of their steps; empty if the
    steps are left out.
    """
    entered = [step.index for step in steps(trace.attempt.events)]
    by_step = {index: iter(step.calls) for index, step in zip(entered, trace.steps, strict=False)}
    in_order = (next(by_step[event.step], None) for event in trace.attempt.events
            if isinstance(event, Called) and event.step in by_step)  # fmt: skip
    return tuple(call for call in in_order if call is not None)


def trace(store: Store, run: Run, question_id: str, epoch: int = 0) -> Trace:
    """Return the trace of one attempt. A question may be named by the end of its id (``12377809``).

    Raises:
        UserError: the run has no such question, or has not answered it yet.
    """
    question, gold = _question(store, run, question_id)
    attempt = store.attempt(run, question.id, epoch)
    if attempt is None:
        raise UserError(f"The run {run.id} has no attempt at {question.id!r} in epoch {epoch} yet.")
    scores = tuple(score for score in store.scores(run, question=question.id) if score.epoch == epoch)
    notes = notes_of(store, [run]).get((run.id, question.id, epoch), ())
    given_name = kept_names(store.engine).get(run.id, "")
    return Trace(run, question, gold, attempt, scores, _steps(store, attempt), notes, given_name=given_name)


def every_trace(store: Store, run: Run) -> Iterator[Trace]:
    """Yield the traces of a run by question id. Questions and scores are read at once, attempts some hundreds at a
    time.
    """
    for bare in bare_traces(store, run):
        yield replace(bare, steps=_steps(store, bare.attempt))


def bare_traces(store: Store, run: Run) -> Iterator[Trace]:
    """Yield traces like :func:`every_trace`, without steps and calls."""
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    scores: dict[AttemptKey, list[Score]] = {}
    for score in store.scores(run):
        scores.setdefault(score.key, []).append(score)
    for attempt in store.attempts(run):
        id, attempt_scores = attempt.question_id, tuple(scores.get(attempt.key, ()))
        yield Trace(run=run, question=by_id[id], gold=golds[id], attempt=attempt, scores=attempt_scores, steps=())


class CallSource(Protocol):
    """Source of recorded calls: a store, or a reader on a separate connection."""

    def packed_calls(self, keys: Iterable[str], requests: bool = True) -> dict[str, tuple[bytes | None, bytes]]:
        """Return requests (``None`` without `requests`) and responses by key, packed; missing keys are left out."""

    def texts(self, hashes: Iterable[bytes]) -> Mapping[bytes, str]:
        """Return long texts by their hashes."""


def traced_call(store: CallSource, call: Call) -> TracedCall:
    """Return a call with its recorded request and response.

    Raises:
        DamagedRecord: a record does not match its checksum.
    """
    return traced_calls(store, [call], strict=True)[0]


def traced_calls(
    store: CallSource, calls: Sequence[Call], brief: bool = False, strict: bool = False
) -> tuple[TracedCall, ...]:
    """Return calls with their recorded requests and responses, read together; damaged and missing ones are left out.

    Args:
        store: holds the journal; or a reader of it.
        calls: of one attempt, or of several.
        brief: read only what a row of a list shows: queries, replies, and passages without their long texts. Requests
            to models are left out.
        strict: raise a DamagedRecord for a damaged record.
    """
    keyed = {call.key: call for call in calls if call.key}
    models = [key for key, call in keyed.items() if call.kind == "model"]
    packed = store.packed_calls([key for key, call in keyed.items() if call.kind != "model"])
    packed |= store.packed_calls(models, requests=not brief)
    records: list[tuple[str, Packed]] = []
    for key, (request, response) in packed.items():
        request_kind, response_kind = _KINDS[keyed[key].kind]
        if request is not None:
            records.append((key, Packed(request, request_kind)))
        with_texts = not (brief and response_kind is SearchResult)
        records.append((key, Packed(response, response_kind, with_texts=with_texts)))
    records_by_key: dict[str, list[object]] = {}
    unpacked = unpack_many([record for _, record in records], store.texts)
    for (key, packed_record), record in zip(records, unpacked, strict=True):
        if record is None and strict:
            unpack(packed_record.data, packed_record.kind, store.texts)  # raises
        records_by_key.setdefault(key, []).append(record)
    return tuple(_traced(call, records_by_key.get(call.key, ())) for call in calls)


_KINDS: dict[str, tuple[type[object], type[object]]] = {
    "model": (Request, Reply),
    "search": (SearchRequest, SearchResult),
    "tool": (dict, dict),
}


def _traced(call: Call, read: Sequence[object]) -> TracedCall:
    """Return a call with its decoded records: request and response, or the response alone."""
    if not read or any(record is None for record in read):
        return TracedCall(call)
    request, response = read[0], read[-1]
    if isinstance(request, dict) and "messages" in request:  # an address that an agent's file lists
        request, response = msgspec.convert(request, Request), msgspec.convert(response, Reply)
    if isinstance(response, SearchResult):
        searched = request if isinstance(request, SearchRequest) else None
        return TracedCall(call, searched=searched, passages=response.passages, when=response.searched)
    if isinstance(response, Reply):
        return TracedCall(call, asked=request if isinstance(request, Request) else None, reply=response)
    return TracedCall(call, used=request, gave=response)


class FoundPassages(Struct, frozen=True):
    """Passages that one search returned."""

    query: str
    passages: tuple[Passage, ...]


def searches_by(
    store: Store, attempt: Attempt, read: dict[str, FoundPassages] | None = None
) -> tuple[FoundPassages, ...]:
    """Return the passages of one attempt's searches, in order; `read` caches them by the calls' keys."""
    cache = {} if read is None else read
    search_keys = [call.key for call in calls(attempt.events) if call.kind == "search" and call.key and not call.error]
    for key in search_keys:
        if key not in cache:
            recorded = store.call(key, SearchRequest, SearchResult)
            cache[key] = FoundPassages(recorded[0].query, recorded[1].passages) if recorded else FoundPassages("", ())
    return tuple(cache[key] for key in search_keys)


def _steps(store: Store, attempt: Attempt) -> tuple[TracedStep, ...]:
    attempt_steps = steps(attempt.events)
    traced = iter(traced_calls(store, [call for step in attempt_steps for call in step.calls], strict=True))
    return tuple(
        TracedStep(
            step.node,
            step.seconds,
            tuple(itertools.islice(traced, len(step.calls))),
            step.notes,
            step.changes,
            step.error,
        )
        for step in attempt_steps
    )


_MAX_NAMED = 10
"""Largest number of questions that a message names."""


def _question(store: Store, run: Run, question_id: str) -> tuple[Question, Gold]:
    """Return the one question of a run with this id, or whose id ends with it, and its gold; no other is decoded."""
    candidates = store.questions_named(run, question_id)
    matches = [stored for stored in candidates if stored.question.id == question_id] or candidates
    if len(matches) == 1:
        return matches[0].question, matches[0].gold
    if matches:
        raise UserError(
            f"{question_id!r} names several questions: {', '.join(stored.question.id for stored in matches)}."
        )
    ids = [question.id for question in store.questions(run)[0]]
    near = nearest(question_id, ids) or f" It has {listed(ids, _MAX_NAMED)}."
    raise UserError(f"The run {run.id} has no question {question_id!r}.{near}")


def traces_by_question(store: Store, runs: Sequence[Run]) -> Iterator[Trace]:
    """Yield the traces of several runs, ordered so that those of one question follow each other."""
    return heapq.merge(
        *(every_trace(store, run) for run in runs), key=lambda trace: (trace.question.id, trace.attempt.epoch)
    )
