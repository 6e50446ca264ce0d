"""Traces as they may be published: whole where the licence of the question's dataset lets anybody give its texts on,
else digests and scores.

A digest says which question and which answer a score is of, to whoever has the questions, and nothing to others. It is
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

from ragrounds.base.records import Gold, Question, Run, Score
from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import Trace, TracedCall, bare_traces, every_trace

TextMode = Literal["never", "licensed", "all"]
"""Which attempts are published with their texts: none at all, those whose dataset's licence lets anybody, every one."""
_SHORT = 16
"""Hexadecimal digits of a digest that stand for a question's id."""
_SHIPPED_CORPUS = "sample@"


def question_digest(question: Question) -> str:
    """The digest of a question."""
    return _digest([question.id, question.text, question.options])


def answer_digest(question: Question, answer: str) -> str:
    """The digest of an answer to a question."""
    return _digest([question.id, question.text, question.options, answer])


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def text_free(mode: TextMode, licences: Collection[TextLicence]) -> frozenset[str]:
    """The datasets whose texts are published."""
    return frozenset(one.dataset for one in licences if mode == "all" or (mode == "licensed" and one.free))


def shown_id(question: Question, free: Collection[str]) -> str:
    """What a question is called where it is published: its id, or the beginning of its digest."""
    return question.id if question.benchmark in free else question_digest(question)[:_SHORT]


def published_traces(store: Store, runs: Sequence[Run], mode: TextMode, free: Collection[str]) -> Iterator[Trace]:
    """The traces of some runs as they are published, those of one question beside each other.

    Args:
        store: where they are.
        runs: whose attempts.
        mode: with ``all`` everything is shown.
        free: the datasets whose texts are.
    """
    each = [_traces(store, run, mode, free) for run in runs]
    for _, trace in heapq.merge(*each, key=itemgetter(0)):
        yield trace


def _traces(store: Store, run: Run, mode: TextMode, free: Collection[str]) -> Iterator[tuple[tuple[str, int], Trace]]:
    """The traces of a run, each with its question's id and its epoch, by which they are in order."""
    documents = mode == "all" or documents_free(run)
    # Where no text is shown, steps and calls need not be read.
    for trace in every_trace(store, run) if free else bare_traces(store, run):
        key = trace.question.id, trace.attempt.epoch
        if trace.question.benchmark not in free:
            yield key, withheld(trace)
        else:
            yield key, trace if documents else without_documents(trace)


def documents_free(run: Run) -> bool:
    """Whether all that a run's prompts may hold beside its questions is ours to give: its graph is a built-in one, and
    it searches nothing, or the corpus that ships with the package."""
    own, corpus = run.identity, run.identity.get("corpus")
    built_in = own.get("tier") == "journaled" and not own.get("tools") and not own.get("oracle")
    return built_in and (corpus is None or str(corpus).startswith(_SHIPPED_CORPUS))


def withheld(trace: Trace) -> Trace:
    """A trace without any text: digests of question and answer, outcome, scores, what it cost."""
    question = trace.question
    digest = question_digest(question)
    return Trace(
        run=trace.run,
        question=Question(
            id=digest[:_SHORT],
            benchmark=question.benchmark,
            text=f"SHA-256 {digest}",
            kind=question.kind,
            split=question.split,
        ),
        gold=Gold(question_id=digest[:_SHORT], answer=""),
        attempt=replace(
            trace.attempt,
            question_id=digest[:_SHORT],
            text=f"SHA-256 {answer_digest(question, trace.attempt.text)}" if trace.attempt.text else "",
            reason="",
            choice="",
            events=(),
        ),
        scores=tuple(_score(one, digest[:_SHORT]) for one in trace.scores),
        steps=(),
    )


def without_documents(trace: Trace) -> Trace:
    """A trace without what its run has read: passages by name and rank alone, no prompts, no state. The questions that
    were asked of a search, and what models replied, stay."""
    steps = tuple(replace(step, calls=tuple(_bare(call) for call in step.calls), changes={}) for step in trace.steps)
    return replace(trace, steps=steps)


def _bare(traced: TracedCall) -> TracedCall:
    passages = tuple(replace(one, text="", chunk="") for one in traced.passages)
    return replace(traced, asked=None, used=None, gave=None, passages=passages)


def _score(score: Score, id: str) -> Score:
    """A score without the answer that was read, which tells what is right."""
    return replace(score, question_id=id, prediction="", reason="")
