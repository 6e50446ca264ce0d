"""Stages of a pipeline as nodes of a graph, one after another. An item leaves the graph if it is rejected.

Helpers request a JSON object or a verdict from a model, limit a refusal to one part of an item (a document, a sentence)
so that the paid results of its other parts are not lost, and check whether one text contains another word for word.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.base.replies import json_objects
from ragrounds.base.text import normalized, wellformed_all
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.judges.verdict import read_verdict, spoken
from ragrounds.evals.scorers.judged import VerdictForm, fenced
from ragrounds.extensions.construction.outcome import REFUSED, Outcome, encode
from ragrounds.graphs.state import END, Graph, Runtime, graph_of
from ragrounds.models.faults import CallFailed

T = TypeVar("T", bound=Struct)
Changes = Mapping[str, object]
"""Changes of the state by a stage: key → new value."""
Stage = Callable[[Any, Context], Awaitable[Changes]]
"""State and context → changes of the state."""

TRIES = 2
"""Number of times that a model is asked before its output counts as malformed."""
MALFORMED = "malformed output"
NOTHING_FOUND = "nothing was found"


class PipelineState(TypedDict, total=False):
    """State that every pipeline has."""

    answer: str
    """Outcome; once it is set, no further stage is entered."""


class Rejected(Exception):
    """Rejection of an item at the stage that raises it.

    Args:
        reason: reason from a small set; reasons are counted.
        detail: details of the case: a model's reply, the check that failed.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


def keep_item(**product: object) -> dict[str, str]:
    """Return the changes of the last stage: the item is kept with this product, whose values must fit JSON."""
    return {"answer": encode(Outcome(kept=True, product=product))}


def in_line(state: type[PipelineState], stages: Mapping[str, Stage]) -> Graph:
    """Join stages in their order to a graph; `state` is a :class:`PipelineState` with further fields."""
    nodes = {name: _node(name, stage) for name, stage in stages.items()}
    edges = {name: (_end_or(following), [following, END]) for name, following in itertools.pairwise(stages)}
    return graph_of(state, nodes, edges)


def _node(name: str, stage: Stage) -> Any:
    async def node(state: Any, runtime: Runtime[Context]) -> Changes:
        """Run the stage. A rejection becomes the item's outcome."""
        try:
            return await stage(state, runtime.context)
        except Rejected as rejected:
            outcome = Outcome(kept=False, stage=name, reason=rejected.reason, detail=rejected.detail)
            return {"answer": encode(outcome)}

    return node


def _end_or(following: str) -> Callable[[PipelineState], str]:
    def next_stage(state: PipelineState) -> str:
        """Return the graph's end if the item has its outcome, else the stage that follows."""
        return END if state.get("answer") else following

    return next_stage


async def ask_for(
    context: Context,
    prompt: str,
    kind: type[T],
    *,
    role: str,
    check: Callable[[T], str] = lambda read: "",
    shorten: str = "",
    **values: str,
) -> T:
    """Request a JSON object with the fields of `kind`. If it cannot be read, request it once more as a new occurrence.

    Args:
        context: context of the item.
        prompt: name of a prompt; `values` are filled in without the marks that fence texts there.
        kind: record that the reply must contain. The last object that fits counts.
        role: role that the tokens are counted for, and whose model is asked if it has one.
        check: function that returns a fault in a reply that could be read (a number out of range); empty if none.
        shorten: name of the value that is cut if the model's window is too small for it.

    Raises:
        Rejected: both replies were malformed; the detail says how the last one was.
    """
    messages = _fitting(context, prompt, role, shorten, {name: fenced(text) for name, text in values.items()})
    fault = ""
    for _ in range(TRIES):
        reply = await context.ask(messages, role=role)
        try:
            record = read_object(reply.text, kind)
            fault = check(record)
        except ValueError as error:
            fault = "the reply was truncated" if reply.finish == "length" else str(error)
        if not fault:
            return record
        context.note("malformed", fault)
    raise Rejected(MALFORMED, fault)


async def ask_verdict(
    context: Context, prompt: str, contract: VerdictForm, *, role: str, shorten: str = "", **values: str
) -> tuple[dict[str, str], str]:
    """Request a value of `contract` on each of its axes, read as for every judge; return axis → value, and the reply.

    The prompt also gets ``$form``, the required end of the reply. Arguments and errors as :func:`ask_for`.
    """
    fenced_values = {name: fenced(text) for name, text in values.items()} | {"form": contract.example}
    return await verdict_on(context, _fitting(context, prompt, role, shorten, fenced_values), contract, role=role)


async def verdict_on(
    context: Context, messages: Sequence[Message], contract: VerdictForm, *, role: str
) -> tuple[dict[str, str], str]:
    """Request a verdict as :func:`ask_verdict`, with a prompt that is already filled, such as one that fences several
    texts."""
    fault = ""
    for _ in range(TRIES):
        reply = await context.ask(messages, role=role)
        reading = read_verdict(reply.text, contract, reply.finish)
        if reading.complete:
            return reading.values, reply.text
        fault = "; ".join(f"{axis}: {reason}" for axis, reason in reading.reasons.items())
        context.note("malformed", fault)
    raise Rejected(MALFORMED, fault)


def read_object(text: str, kind: type[T]) -> T:
    """Return the last JSON object in a reply that has the fields of `kind`, ignoring reasoning before the reply.

    Raises:
        ValueError: no such object; the message describes the fault of the last object.
    """
    fault = "empty reply" if not text.strip() else "no JSON object in the reply"
    for candidate, _, _ in reversed(list(json_objects(spoken(text)))):
        try:
            return msgspec.convert(wellformed_all(candidate), kind)
        except msgspec.ValidationError as error:
            fault = str(error) if fault.endswith("reply") else fault
    raise ValueError(fault)


def _fitting(context: Context, prompt: str, role: str, shorten: str, values: dict[str, str]) -> tuple[Message, ...]:
    language = context.stem.language
    if shorten:
        available = context.room(context.prompts.render(prompt, language, **{**values, shorten: ""}), role=role)
        text = values[shorten]
        if available is not None and context.count(text, role=role) > available:
            values = {**values, shorten: context.cut(text, available, role=role)}
            context.note("cut", f"{shorten}: only the first {available:,} tokens fit the model's window")
    return context.prompts.render(prompt, language, **values)


Part = TypeVar("Part")

CALL_FAILED = "the call failed permanently"
_FOR_GOOD = ("bad_request", "context_too_long")
"""Kinds of failed calls that fail again however often they are repeated."""


async def of_part(call: Awaitable[Part]) -> Part:
    """Await a call that concerns one part of an item.

    Raises:
        Rejected: the part is rejected: its replies were malformed, the provider refused it, or the call would always
            fail.
        CallFailed, AttemptEnded: any other failure ends the item; another run may succeed.
    """
    try:
        return await call
    except AttemptEnded as ended:
        if ended.status != "blocked":
            raise
        raise Rejected(REFUSED, ended.reason) from ended
    except CallFailed as failed:
        if failed.kind not in _FOR_GOOD:
            raise
        raise Rejected(CALL_FAILED, f"{failed.kind}: {failed.message}") from failed


def none_left(faults: Sequence[Rejected]) -> None:
    """Raise the failure behind the faults of all parts of an item, if any. If every part failed, the server may be the
    cause, so the item fails and the same command tries it again.

    Raises:
        CallFailed: one of the parts' calls failed.
    """
    for fault in faults:
        if isinstance(fault.__cause__, CallFailed):
            raise fault.__cause__


def reason_counts(reasons: Iterable[str]) -> str:
    """Return `` (3 malformed output, 1 refused by the provider)``, most frequent first; empty without reasons."""
    counts = Counter(reasons).most_common()
    return f" ({', '.join(f'{count:,} {reason}' for reason, count in counts)})" if counts else ""


_WORD = re.compile(r"\w+")


def folded(text: str) -> str:
    """Return the text in the form for comparisons: without differences of case, spacing, punctuation and width."""
    return " ".join(_WORD.findall(normalized("NFKC", text).casefold()))


def holds_verbatim(part: str, text: str) -> bool:
    """Return True if `text` contains `part` word for word."""
    folded_part, folded_whole = folded(part), folded(text)
    if not folded_part:
        return False
    # Words of a language that is written without blanks have no boundaries that could be compared.
    spaced = all(character.isascii() for character in folded_part)
    return f" {folded_part} " in f" {folded_whole} " if spaced else folded_part in folded_whole
