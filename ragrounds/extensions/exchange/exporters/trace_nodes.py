"""An attempt as a tree of nodes, as tracing tools draw it: the attempt, its steps, and their calls of models, searches
and tools. What every export of traces shares is here: what a node holds, its ids, and that no key leaves.

Ids are hashes of run, question, epoch and place, so exporting twice gives the same nodes. An attempt that a resumed run
makes again (it failed, or waits for a person) has its time in them: what replaces it is another trace.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import COUNTED, FINAL, WITHOUT_ANSWER, Gold, Message, Question, Reply, Run, Score, Usage
from ragrounds.base.redaction import Redactor
from ragrounds.base.specs import Spec, parse
from ragrounds.evals.scorers.catalogue import SCORERS
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import Trace, TracedCall, every_trace
from ragrounds.evals.trace.traces import steps as steps_of

T = TypeVar("T", bound=Struct)
_UNFIT = re.compile("[\x00\ud800-\udfff]")
"""Characters that protobuf, JSON in UTF-8 or a server's database cannot hold."""


class TraceNode(Struct, frozen=True, kw_only=True):
    """One node of an attempt's tree."""

    kind: Literal["attempt", "step", "model", "embedding", "search", "tool"]
    place: tuple[int, ...]
    """Where it stands: ``()`` the attempt, ``(step,)``, ``(step, call)``."""
    name: str
    start: float
    end: float
    error: str = ""
    input: object = None
    """A text, or values for JSON; ``None``: not known."""
    output: object = None
    facts: dict[str, object] = {}
    """What else is known of it."""
    call: TracedCall | None = None
    provider: str = ""
    model: str = ""
    """The model that answered, as its server names it, or else as it was asked for."""
    parameters: dict[str, object] = {}
    """Of a model's call: those of the model, and those of this request."""
    usage: Usage | None = None
    cost: float | None = None
    """Dollars without any cache; ``None``: not known."""

    @property
    def parent(self) -> tuple[int, ...] | None:
        """The place of the node that holds it; ``None``: it is the attempt."""
        return self.place[:-1] if self.place else None


def trace_digest(trace: Trace, space: str = "") -> bytes:
    """What an attempt is known by elsewhere, in a space of its own (a project): 32 bytes."""
    attempt = trace.attempt
    key: tuple[str, ...] = (trace.run.id, trace.question.id, str(attempt.epoch))
    if attempt.status not in FINAL:
        key = (*key, attempt.status, repr(attempt.at))
    if space:
        key = (*key, "in", space)
    return hashlib.sha256("\0".join(key).encode()).digest()


def node_digest(trace: Trace, place: tuple[int, ...], space: str = "") -> bytes:
    """What a node of an attempt is known by elsewhere: 32 bytes."""
    return hashlib.sha256(trace_digest(trace, space) + repr(place).encode()).digest()


class TraceCleaner:
    """Takes out of a trace what must not or cannot leave: keys, and characters that no other tool can hold."""

    def __init__(self) -> None:
        self._hide = Redactor()

    def traces(self, store: Store, runs: Iterable[Run]) -> Iterator[Trace]:
        """All traces of some runs, clean."""
        for run in runs:
            # Its id is how commands, files and other tools name it.
            clean = replace(self._same(run), id=run.id)
            for trace in every_trace(store, run):
                yield self._clean(trace, clean)

    def _clean(self, trace: Trace, run: Run) -> Trace:
        return replace(
            trace,
            run=run,
            question=self._same(trace.question),
            gold=self._same(trace.gold),
            attempt=self._same(trace.attempt),
            scores=tuple(map(self._same, trace.scores)),
            steps=tuple(map(self._same, trace.steps)),
        )

    def text(self, text: str) -> str:
        """A clean text."""
        clean = self._hide.in_json(text)
        return _UNFIT.sub("\ufffd", clean) if _UNFIT.search(clean) else clean

    def value(self, value: object) -> object:
        """Plain values with clean texts."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(one) for key, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list | tuple) else value

    def _same(self, record: T) -> T:
        return msgspec.convert(self.value(msgspec.to_builtins(record)), type(record))


def trace_nodes(trace: Trace) -> Iterator[TraceNode]:
    """The nodes of one attempt, which should be clean; each after the one that holds it."""
    attempt, question = trace.attempt, trace.question
    start = attempt.at or trace.run.created
    yield TraceNode(
        kind="attempt",
        place=(),
        name=trace.run.agent,
        start=start,
        end=start + attempt.seconds,
        error=(attempt.reason or attempt.status) if attempt.status in WITHOUT_ANSWER else "",
        input=asked_text(question),
        output=attempt.text,
        facts=attempt_facts(trace),
        # Tools add the tokens and dollars of all nodes up: they stand here only where no call does.
        usage=None if trace.steps else attempt.usage,
        cost=None if trace.steps else attempt.cost_uncached,
    )
    for place, (step, traced) in enumerate(zip(steps_of(attempt.events), trace.steps, strict=True)):
        begun = step.at or start
        notes: dict[str, object] = (
            {"notes": [{"what": note.what, "text": note.text} for note in step.notes]} if step.notes else {}
        )
        yield TraceNode(
            kind="step",
            place=(place,),
            name=step.node or "outside of any node",
            start=begun,
            end=begun + step.seconds if step.seconds is not None else max(begun, start + attempt.seconds),
            error=step.error,
            output=step.changes or None,
            facts=notes,
        )
        for number, call in enumerate(traced.calls):
            yield _call_node(call, (place, number), begun)


def _call_node(traced: TracedCall, place: tuple[int, ...], begun: float) -> TraceNode:
    call, spec = traced.call, _spec(traced.call.actor)
    at = call.at or begun
    embedding = call.kind == "model" and call.role == "embedding"
    made = TraceNode(
        kind="embedding" if embedding else call.kind,
        place=place,
        name=f"{call.kind} {call.role}",
        start=at,
        end=at + call.seconds,
        error=call.error,
        facts={"actor": call.actor, "role": call.role, "node": call.node, "cached": call.cached},
        call=traced,
        usage=call.usage,
        cost=call.cost_uncached,
    )
    if call.faults:
        made.facts["faults"] = msgspec.to_builtins(call.faults)
    if call.kind == "search":
        searched = traced.searched
        query = searched.query if searched else None
        return replace(made, input=query, parameters={"k": searched.k, "corpus": searched.corpus} if searched else {})
    if call.kind == "tool":
        if traced.asked is not None:  # an address that an agent's file lists
            said = "\n".join(message.content for message in traced.asked.messages)
            return replace(made, name=spec.name, input=said, output=traced.reply.text if traced.reply else None)
        return replace(made, name=spec.name, input=traced.used, output=traced.gave)
    provider, _, name = spec.name.partition(":")
    reply, asked = traced.reply, traced.asked
    parameters: dict[str, object] = {
        key: str(value) if isinstance(value, Spec) else value for key, value in spec.parameters.items()
    }
    if asked is not None:
        # Whatever stands in the request beside messages and tools: its limit, its stops, what a later release adds.
        more = {**msgspec.to_builtins(asked)}
        parameters |= {key: more[key] for key in more.keys() - {"messages", "tools", "occurrence"} if more[key]}
    if reply is not None:
        made.facts["finish"] = reply.finish
    return replace(
        made,
        input=[chat_message(message) for message in asked.messages] if asked else None,
        output=chat_message(replied(reply)) | ({"reasoning": reply.reasoning} if reply.reasoning else {})
        if reply
        else None,
        provider=provider if name else "",
        model=(reply.model if reply else "") or call.model or name or provider,
        parameters=dict(sorted(parameters.items())),
    )


def replied(reply: Reply) -> Message:
    """A reply as the turn of a chat."""
    return Message("assistant", reply.text, calls=reply.calls)


def chat_message(message: Message) -> dict[str, object]:
    """A turn of a chat as OpenAI's API writes it, which other tools read."""
    made: dict[str, object] = {"role": message.role, "content": message.content}
    if message.calls:
        made["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return made | ({"tool_call_id": message.answers} if message.answers else {})


def _spec(text: str) -> Spec:
    try:
        return parse(text)
    except UserError:  # of an earlier release, or of a foreign system
        return Spec(text)


def asked_text(question: Question) -> str:
    """A question with its options, as a person reads it."""
    options = "\n".join(f"{label}. {text}" for label, text in question.options.items())
    return f"{question.text}\n\n{options}" if options else question.text


def attempt_facts(trace: Trace) -> dict[str, object]:
    """What a run is, what was asked, what is right and how it ended: the same in every tool."""
    attempt, run, question = trace.attempt, trace.run, trace.question
    return {
        "run": run.id,
        "agent": run.agent,
        "benchmark": run.benchmark,
        "fingerprint": run.fingerprint,
        "questions": run.questions,
        "begun_by": run.version,
        "origin": run.origin,
        "models": run.identity.get("models") or {},
        "question_id": question.id,
        "question": question.text,
        "options": question.options,
        "dataset": question.benchmark,
        "subject": question.group,
        "gold": trace.gold.answer,
        "gold_documents": list(trace.gold.documents),
        "epoch": attempt.epoch,
        "status": attempt.status,
        "reason": attempt.reason,
        "choice": attempt.choice,
        **{name: getattr(attempt, name) for name in COUNTED},
        "tokens": None if attempt.usage is None else msgspec.to_builtins(attempt.usage),
        "cost_paid": attempt.cost_paid,
        "cost_uncached": attempt.cost_uncached,
        "seconds": attempt.seconds,
        **{f"{one.scorer}.score": one.value for one in trace.scores},
    }


def score_words(score: Score, gold: Gold) -> str:
    """Why a score is what it is, in a line."""
    read = f"read as {score.prediction}" if score.prediction else f"{score.answer_status}, nothing was read"
    right = f"right is {gold.answer}" if gold.answer else ""
    return "; ".join(text for text in (read, right, score.reason) if text)


def score_facts(score: Score) -> dict[str, object]:
    """What else is known of a score."""
    return {
        "answer_status": score.answer_status,
        "prediction": score.prediction,
        "code": score.code,
        "epoch": score.epoch,
    }


def by_judge(score: Score) -> bool:
    """Whether a model judged it; a scorer that is not known here counts as code."""
    try:
        known = SCORERS.find(score.scorer.partition("[")[0])
    except UserError:  # of an installed package that cannot be used
        return False
    return known is not None and known.needs_judge
