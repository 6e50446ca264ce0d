"""Traces as they may be published.

A trace is published in full if the licence of the question's dataset allows redistribution, otherwise as digests and
scores.

A digest identifies the question and answer of a score to people who have the questions, and reveals nothing else. It is
the SHA-256 (hexadecimal) of a JSON list without blanks, in UTF-8: of a question ``[id, text, options]``, of an answer
``[id, text, options, answer]``; so an answer of one letter cannot be guessed without its question.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import Literal

import msgspec
from msgspec.structs import replace

from ragrounds.base.records import AttemptKey, Gold, Question, Run
from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import Trace, TracedCall, bare_traces, every_trace

TextMode = Literal["never", "licensed", "all"]
"""Attempts that are published with their texts: none, those whose dataset's licence allows it, or all."""
_ID_DIGITS = 16
"""Number of hexadecimal digits of a digest that replace a question's id."""
_SHIPPED_CORPUS = "sample@"


def question_digest(question: Question) -> str:
    """Return the digest of a question."""
    return _digest([question.id, question.text, question.options])


def answer_digest(question: Question, answer: str) -> str:
    """Return the digest of an answer to a question."""
    return _digest([question.id, question.text, question.options, answer])


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def text_free(mode: TextMode, licences: Collection[TextLicence]) -> frozenset[str]:
    """Return the datasets whose texts are published."""
    return frozenset(licence.dataset for licence in licences if mode == "all" or (mode == "licensed" and licence.free))


def shown_id(question: Question, free: Collection[str]) -> str:
    """Return the published id of a question: its id, or the beginning of its digest."""
    return question.id if question.benchmark in free else question_digest(question)[:_ID_DIGITS]


def published_traces(store: Store, runs: Sequence[Run], mode: TextMode, free: Collection[str]) -> Iterator[Trace]:
    """Yield the traces of the runs as they are published; traces of one question follow each other.

    Args:
        store: the store that has the runs.
        runs: runs whose attempts are published.
        mode: with ``all`` everything is shown.
        free: the datasets whose texts are shown.
    """
    trace_streams = [_traces(store, run, mode, free) for run in runs]
    for _, trace in heapq.merge(*trace_streams, key=itemgetter(0)):
        yield trace


def _traces(store: Store, run: Run, mode: TextMode, free: Collection[str]) -> Iterator[tuple[AttemptKey, Trace]]:
    """Yield the traces of a run in the order of their keys: question id and epoch."""
    documents = mode == "all" or documents_free(run)
    # If no text is shown, steps and calls need not be read.
    for trace in every_trace(store, run) if free else bare_traces(store, run):
        key = trace.question.id, trace.attempt.epoch
        if trace.question.benchmark not in free:
            yield key, withheld(trace)
        else:
            yield key, trace if documents else without_documents(trace)


def documents_free(run: Run) -> bool:
    """Return True if all documents in a run's prompts may be published.

    Its graph must be a built-in one, and it searches nothing, or only the corpus that ships with the package.
    """
    identity, corpus = run.identity, run.identity.get("corpus")
    built_in = identity.get("tier") == "journaled" and not identity.get("tools") and not identity.get("oracle")
    return built_in and (corpus is None or str(corpus).startswith(_SHIPPED_CORPUS))


def withheld(trace: Trace) -> Trace:
    """Return a trace without any text: digests of question and answer, outcome, scores and cost."""
    question = trace.question
    digest = question_digest(question)
    public_id = digest[:_ID_DIGITS]
    return Trace(
        run=trace.run,
        question=Question(
            id=public_id,
            benchmark=question.benchmark,
            text=f"SHA-256 {digest}",
            kind=question.kind,
            split=question.split,
        ),
        gold=Gold(question_id=public_id, answer=""),
        attempt=replace(
            trace.attempt,
            question_id=public_id,
            text=f"SHA-256 {answer_digest(question, trace.attempt.text)}" if trace.attempt.text else "",
            reason="",
            choice="",
            events=(),
        ),
        # The answer that a scorer read reveals what is right.
        scores=tuple(replace(score, question_id=public_id, prediction="", reason="") for score in trace.scores),
        steps=(),
    )


def without_documents(trace: Trace) -> Trace:
    """Return a trace without the documents that its run has read.

    Passages have only name and rank; prompts and state are removed. Search queries and model replies stay.
    """
    steps = tuple(
        replace(step, calls=tuple(_without_text(call) for call in step.calls), changes={}) for step in trace.steps
    )
    return replace(trace, steps=steps)


def _without_text(traced: TracedCall) -> TracedCall:
    passages = tuple(replace(passage, text="", chunk="") for passage in traced.passages)
    return replace(traced, asked=None, used=None, gave=None, passages=passages)
