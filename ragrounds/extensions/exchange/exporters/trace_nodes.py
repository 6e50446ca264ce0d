"""An attempt as a tree of nodes for tracing tools: the attempt, its steps, and their calls of models, searches and
tools. All exports of traces share the contents of nodes, their ids, and the removal of keys.

Ids are hashes of run, question, epoch and position, so a second export gives the same nodes. The ids of an attempt that
a resumed run makes again (it failed, or waits for a person) include its time: its replacement is a different trace.
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
from ragrounds.base.records import COUNTED, FINAL, WITHOUT_ANSWER, Message, Question, Reply, Run, Usage
from ragrounds.base.specs import Spec, parse
from ragrounds.base.text import map_texts
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import Trace, TracedCall, every_trace
from ragrounds.evals.trace.traces import steps as steps_of
from ragrounds.recorder.redaction import Redactor

T = TypeVar("T", bound=Struct)
_UNFIT = re.compile("[\x00\ud800-\udfff]")
"""Characters that protobuf, JSON in UTF-8 or a server's database cannot hold."""


class TraceNode(Struct, frozen=True, kw_only=True):
    """One node of an attempt's tree."""

    kind: Literal["attempt", "step", "model", "embedding", "search", "tool"]
    position: tuple[int, ...]
    """Position in the tree: ``()`` for the attempt, ``(step,)``, ``(step, call)``."""
    name: str
    start: float
    end: float
    error: str = ""
    input: object = None
    """Text, or values for JSON; ``None`` if unknown."""
    output: object = None
    facts: dict[str, object] = {}
    """Further metadata of the node."""
    call: TracedCall | None = None
    provider: str = ""
    model: str = ""
    """Model that answered, as its server names it, or else as it was requested."""
    parameters: dict[str, object] = {}
    """Parameters of a model's call: those of the model, and those of this request."""
    usage: Usage | None = None
    cost: float | None = None
    """Dollars without any cache; ``None`` if unknown."""

    @property
    def parent(self) -> tuple[int, ...] | None:
        """Position of the parent node; ``None`` for the attempt."""
        return self.position[:-1] if self.position else None


def trace_digest(trace: Trace) -> bytes:
    """Return the digest that identifies an attempt in other tools: 32 bytes."""
    attempt = trace.attempt
    key: tuple[str, ...] = (trace.run.id, trace.question.id, str(attempt.epoch))
    if attempt.status not in FINAL:
        key = (*key, attempt.status, repr(attempt.at))
    return hashlib.sha256("\0".join(key).encode()).digest()


def node_digest(trace: Trace, position: tuple[int, ...]) -> bytes:
    """Return the digest that identifies a node of an attempt in other tools: 32 bytes."""
    return hashlib.sha256(trace_digest(trace) + repr(position).encode()).digest()


class TraceCleaner:
    """Cleaner that removes from a trace what must not or cannot be exported: keys, and characters that other tools
    cannot store."""

    def __init__(self) -> None:
        self._hide = Redactor()

    def traces(self, store: Store, runs: Iterable[Run]) -> Iterator[Trace]:
        """Yield all traces of some runs, cleaned."""
        for run in runs:
            # The id is not cleaned: commands, files and other tools use it as the run's name.
            clean = replace(self.record(run), id=run.id)
            for trace in every_trace(store, run):
                yield self._clean(trace, clean)

    def _clean(self, trace: Trace, run: Run) -> Trace:
        return replace(
            trace,
            run=run,
            question=self.record(trace.question),
            gold=self.record(trace.gold),
            attempt=self.record(trace.attempt),
            scores=tuple(map(self.record, trace.scores)),
            steps=tuple(map(self.record, trace.steps)),
        )

    def text(self, text: str) -> str:
        """Return the cleaned text."""
        clean = self._hide.in_json(text)
        return _UNFIT.sub("\ufffd", clean) if _UNFIT.search(clean) else clean

    def record(self, record: T) -> T:
        """Return a record with cleaned texts."""
        return msgspec.convert(map_texts(msgspec.to_builtins(record, str_keys=True), self.text), type(record))


def trace_nodes(trace: Trace) -> Iterator[TraceNode]:
    """Yield the nodes of one attempt, which should be clean. Each comes after its parent."""
    attempt, question = trace.attempt, trace.question
    start = attempt.at or trace.run.created
    yield TraceNode(
        kind="attempt",
        position=(),
        name=trace.run.agent,
        start=start,
        end=start + attempt.seconds,
        error=(attempt.reason or attempt.status) if attempt.status in WITHOUT_ANSWER else "",
        input=asked_text(question),
        output=attempt.text,
        facts={**attempt_facts(trace), "identity": trace.run.identity},
        # Tools sum up the tokens and dollars of all nodes: the attempt has them only if there are no calls.
        usage=None if trace.steps else attempt.usage,
        cost=None if trace.steps else attempt.cost_uncached,
    )
    for step_index, (step, traced) in enumerate(zip(steps_of(attempt.events), trace.steps, strict=True)):
        started = step.at or start
        notes: dict[str, object] = (
            {"notes": [{"what": note.what, "text": note.text} for note in step.notes]} if step.notes else {}
        )
        yield TraceNode(
            kind="step",
            position=(step_index,),
            name=step.node or "outside of any node",
            start=started,
            end=started + step.seconds if step.seconds is not None else max(started, start + attempt.seconds),
            error=step.error,
            output=step.changes or None,
            facts=notes,
        )
        for number, call in enumerate(traced.calls):
            yield _call_node(call, (step_index, number), started)


def _call_node(traced: TracedCall, path: tuple[int, ...], step_start: float) -> TraceNode:
    call, request, reply = traced.call, traced.asked, traced.reply
    spec, start = _spec(call.actor), call.at or step_start
    facts: dict[str, object] = {"actor": call.actor, "role": call.role, "node": call.node, "cached": call.cached}
    if call.faults:
        facts["faults"] = msgspec.to_builtins(call.faults)
    node = TraceNode(
        kind="embedding" if call.kind == "model" and call.role == "embedding" else call.kind,
        position=path,
        name=spec.name if call.kind == "tool" else f"{call.kind} {call.role}",
        start=start,
        end=start + call.seconds,
        error=call.error,
        facts=facts,
        call=traced,
        usage=call.usage,
        cost=call.cost_uncached,
    )
    if call.kind == "search":
        searched = traced.searched
        parameters = {"k": searched.k, "corpus": searched.corpus} if searched else {}
        facts.update(parameters)
        return replace(node, input=searched.query if searched else None, parameters=parameters)
    if call.kind == "tool" and request is None:
        return replace(node, input=traced.used, output=traced.gave)
    if call.kind == "tool" and request is not None:  # an address that an agent's file lists
        text = "\n".join(message.content for message in request.messages)
        return replace(node, input=text, output=reply.text if reply else None)
    parameters = {key: str(value) if isinstance(value, Spec) else value for key, value in spec.parameters.items()}
    # All fields of the request except messages and tools: its limit, its stops, fields of later releases.
    parameters |= {
        key: value
        for key, value in (msgspec.to_builtins(request) if request else {}).items()
        if value and key not in ("messages", "tools", "occurrence")
    }
    if reply is not None:
        facts["finish"] = reply.finish
    provider, _, name = spec.name.partition(":")
    return replace(
        node,
        input=[chat_message(message) for message in request.messages] if request else None,
        output=reply and chat_message(replied(reply)) | ({"reasoning": reply.reasoning} if reply.reasoning else {}),
        provider=provider if name else "",
        model=(reply.model if reply else "") or call.model or name or provider,
        parameters=dict(sorted(parameters.items())),
    )


def replied(reply: Reply) -> Message:
    """Return a reply as the turn of a chat."""
    return Message("assistant", reply.text, calls=reply.calls)


def chat_message(message: Message) -> dict[str, object]:
    """Return a turn of a chat as OpenAI's API writes it, which other tools read."""
    turn: dict[str, object] = {"role": message.role, "content": message.content}
    if message.calls:
        turn["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return turn | ({"tool_call_id": message.answers} if message.answers else {})


def _spec(text: str) -> Spec:
    try:
        return parse(text)
    except UserError:  # of an earlier release, or of a foreign system
        return Spec(text)


def asked_text(question: Question) -> str:
    """Return a question with its options, as a person reads it."""
    options = "\n".join(f"{label}. {text}" for label, text in question.options.items())
    return f"{question.text}\n\n{options}" if options else question.text


def attempt_facts(trace: Trace) -> dict[str, object]:
    """Return the metadata of an attempt for every tool: the run, the question, the gold and the outcome."""
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
        **{f"{score.scorer}.score": score.value for score in trace.scores},
    }
