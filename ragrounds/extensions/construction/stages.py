"""Stages of a pipeline as nodes of a graph: one after another; an item leaves where it is rejected.

Also here: how a model is asked for a JSON object or a verdict, how a refusal of one part of an item (one of its
documents, a sentence beside it) is kept from costing the item with everything that was paid for its other parts, and
whether one text stands in another word for word.
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
from ragrounds.base.text import normalized, wellformed_all
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.judges.verdict import objects, read_verdict, spoken
from ragrounds.evals.scorers.judged import VerdictForm, fenced
from ragrounds.extensions.construction.outcome import REFUSED, Outcome, encode
from ragrounds.graphs.state import END, Graph, Runtime, graph_of
from ragrounds.models.faults import CallFailed

T = TypeVar("T", bound=Struct)
Changes = Mapping[str, object]
"""What a stage changes of the state: key → new value."""
Stage = Callable[[Any, Context], Awaitable[Changes]]
"""State and context → changes of the state."""

TRIES = 2
"""How often a model is asked before its output counts as malformed."""
MALFORMED = "malformed output"
NOTHING_FOUND = "nothing was found"


class PipelineState(TypedDict, total=False):
    """What every pipeline's state has."""

    answer: str
    """The outcome; once it is there, no further stage is entered."""


class Rejected(Exception):
    """The item is rejected at the stage that raises it.

    Args:
        reason: One of a few; they are counted.
        detail: The case itself: what a model replied, which check failed.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


def kept(**product: object) -> dict[str, str]:
    """The changes that a last stage returns: the item is kept with this product, whose values JSON can carry."""
    return {"answer": encode(Outcome(kept=True, product=product))}


def in_line(state: type[PipelineState], stages: Mapping[str, Stage]) -> Graph:
    """Join stages in their order to a graph; `state` is a :class:`PipelineState` with fields of its own."""
    nodes = {name: _node(name, stage) for name, stage in stages.items()}
    ways = {name: (_next_stage(following), [following, END]) for name, following in itertools.pairwise(stages)}
    return graph_of(state, nodes, ways)


def _node(name: str, stage: Stage) -> Any:
    async def node(state: Any, runtime: Runtime[Context]) -> Changes:
        """Run the stage; a rejection becomes the item's outcome."""
        try:
            return await stage(state, runtime.context)
        except Rejected as rejected:
            outcome = Outcome(kept=False, stage=name, reason=rejected.reason, detail=rejected.detail)
            return {"answer": encode(outcome)}

    return node


def _next_stage(following: str) -> Callable[[PipelineState], str]:
    def next_stage(state: PipelineState) -> str:
        """The graph's end where the item has its outcome, else the stage that follows."""
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
    """Ask for a JSON object with the fields of `kind`; where it cannot be read, once more as a new occurrence.

    Args:
        context: The item's.
        prompt: Name of a prompt; `values` go into it with the marks taken out that fence texts there.
        kind: What the reply must hold. The last object that fits counts.
        role: Whose tokens these are, and the name of the model that is asked where one of that name is given.
        check: What is wrong with the form of a reply that could be read (a number out of range); empty: nothing.
        shorten: Which of `values` is cut where the model's window is too small for it.

    Raises:
        Rejected: both replies were malformed; the detail says how the last one was.
    """
    messages = _fitting(context, prompt, role, shorten, {name: fenced(text) for name, text in values.items()})
    why = ""
    for _ in range(TRIES):
        reply = await context.ask(messages, role=role)
        try:
            found = read_object(reply.text, kind)
            why = check(found)
        except ValueError as error:
            why = "the reply was truncated" if reply.finish == "length" else str(error)
        if not why:
            return found
        context.note("malformed", why)
    raise Rejected(MALFORMED, why)


async def ask_verdict(
    context: Context, prompt: str, contract: VerdictForm, *, role: str, shorten: str = "", **values: str
) -> tuple[dict[str, str], str]:
    """Ask for a value of `contract` on each of its axes, read as every judge is; gives axis → value, and the reply.

    The prompt is also given ``$form``, what the reply must end with. Arguments and errors as :func:`ask_for`.
    """
    given = {name: fenced(text) for name, text in values.items()} | {"form": contract.example}
    return await verdict_on(context, _fitting(context, prompt, role, shorten, given), contract, role=role)


async def verdict_on(
    context: Context, messages: Sequence[Message], contract: VerdictForm, *, role: str
) -> tuple[dict[str, str], str]:
    """:func:`ask_verdict` with a prompt that is filled already: for one that fences several texts."""
    why = ""
    for _ in range(TRIES):
        reply = await context.ask(messages, role=role)
        reading = read_verdict(reply.text, contract, reply.finish)
        if reading.complete:
            return reading.values, reply.text
        why = "; ".join(f"{axis}: {reason}" for axis, reason in reading.reasons.items())
        context.note("malformed", why)
    raise Rejected(MALFORMED, why)


def read_object(text: str, kind: type[T]) -> T:
    """The last JSON object in a reply that has the fields of `kind`; what was thought aloud is passed over.

    Raises:
        ValueError: there is none; says what is wrong with the last object.
    """
    why = "empty reply" if not text.strip() else "no JSON object in the reply"
    for found, _ in reversed(list(objects(spoken(text)))):
        try:
            return msgspec.convert(wellformed_all(found), kind)
        except msgspec.ValidationError as error:
            why = str(error) if why.endswith("reply") else why
    raise ValueError(why)


def _fitting(context: Context, prompt: str, role: str, shorten: str, values: dict[str, str]) -> tuple[Message, ...]:
    language = context.stem.language
    if shorten:
        room = context.room(context.prompts.render(prompt, language, **{**values, shorten: ""}), role=role)
        text = values[shorten]
        if room is not None and context.count(text, role=role) > room:
            values = {**values, shorten: context.cut(text, room, role=role)}
            context.note("cut", f"{shorten}: only the first {room:,} tokens fit the model's window")
    return context.prompts.render(prompt, language, **values)


Part = TypeVar("Part")

CALL_FAILED = "the call failed permanently"
_FOR_GOOD = ("bad_request", "context_too_long")
"""Kinds of failed calls that fail alike however often they are made."""


async def of_part(asked: Awaitable[Part]) -> Part:
    """Await a call that concerns one part of an item.

    Raises:
        Rejected: the part is rejected: its replies were malformed, the provider refused it, or the call would fail
            each time.
        CallFailed, AttemptEnded: any other failure ends the item; another run may succeed.
    """
    try:
        return await asked
    except AttemptEnded as ended:
        if ended.status != "blocked":
            raise
        raise Rejected(REFUSED, ended.reason) from ended
    except CallFailed as failed:
        if failed.kind not in _FOR_GOOD:
            raise
        raise Rejected(CALL_FAILED, f"{failed.kind}: {failed.message}") from failed


def none_left(faults: Sequence[Rejected]) -> None:
    """Raise the failure behind the faults of all parts of an item, if there is one. A failure of every part may lie
    with the server, so that the item fails with it and the same command tries it again.

    Raises:
        CallFailed: one of the parts' calls failed.
    """
    for fault in faults:
        if isinstance(fault.__cause__, CallFailed):
            raise fault.__cause__


def reason_counts(reasons: Iterable[str]) -> str:
    """`` (3 malformed output, 1 refused by the provider)``, most first; empty where there are none."""
    counts = Counter(reasons).most_common()
    return f" ({', '.join(f'{count:,} {reason}' for reason, count in counts)})" if counts else ""


_WORD = re.compile(r"\w+")


def folded(text: str) -> str:
    """The form in which texts are compared: without differences of case, spacing, punctuation and width."""
    return " ".join(_WORD.findall(normalized("NFKC", text).casefold()))


def holds_verbatim(part: str, whole: str) -> bool:
    """Whether `part` stands in `whole` word for word."""
    wanted, given = folded(part), folded(whole)
    if not wanted:
        return False
    spaced = all(character.isascii() for character in wanted)
    return f" {wanted} " in f" {given} " if spaced else wanted in given
