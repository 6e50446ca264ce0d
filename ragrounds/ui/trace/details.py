"""The detail of a node: the exact messages, the reply, the passages, scores, errors with their retries.

What became of passages is derived from the recorded prompts: a passage is in a prompt where its text stands in a
message, whole or, cut to the model's window, its beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ragrounds.contracts import Request
from ragrounds.models.model_names import other_name
from ragrounds.records import Call, Message, Passage, Reply, Step
from ragrounds.ui.call_words import probability_of, terms_of
from ragrounds.ui.text import UNKNOWN, dollars, duration, number_of, percent, tokens
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.tree import LoadedAttempt, Node, measured

if TYPE_CHECKING:
    from ragrounds.evals.engine.in_flight import LiveCall

_LATER = 40
"""Model calls after a search that are looked at."""
_BEGINNING = 80
"""Characters by which a passage that was cut is known again."""


class PromptUse(Struct, frozen=True):
    """A model call whose prompt held a passage."""

    key: str
    """The call's key in the journal."""
    node: str
    role: str
    whole: bool
    """The whole passage stood in the prompt, not only its beginning."""
    reply: str


def detail(loaded: LoadedAttempt, node: Node) -> list[TextBlock]:
    """The detail of a node, in blocks of text."""
    if node.doing is not None:
        return list(_doing(loaded, node.doing))
    if node.call is not None:
        return [*_call(loaded, node.call), *(_around(node.step) if node.step else ())]
    if node.step is not None:
        return list(_step(node))
    if node.kind == "round":
        return list(_round(node))
    return list(_attempt(loaded))


def _attempt(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    summary, attempt = loaded.summary, loaded.attempt
    question, gold = summary.question, summary.gold
    yield TextBlock(
        f"{question.id}, {summary.run.agent}" + (f", epoch {summary.epoch}" if summary.epoch else ""), "heading"
    )
    yield TextBlock(question.text)
    for letter, text in question.options.items():
        right, chosen = letter == gold.answer, letter == summary.prediction
        mark = ("✓" if right else " ") + ("→" if chosen else " ")
        yield TextBlock(f"{mark} {letter}. {text}", "gold" if right else "wrong" if chosen else "plain")
    if not question.options:
        yield TextBlock(f"reference: {gold.answer}", "gold")
        for fact in gold.facts:
            yield TextBlock(f"required: {' | '.join(fact)}", "gold", 2)
    if attempt is None:
        yield from _unfinished(loaded)
        return
    yield TextBlock("\noutcome", "heading")
    style = "plain" if attempt.status == "completed" else "trouble"
    yield TextBlock(attempt.status + (f": {attempt.reason}" if attempt.reason else ""), style)
    used = attempt.usage
    yield TextBlock(
        (f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown")
        + f" | paid {dollars(attempt.cost_paid)}, uncached {dollars(attempt.cost_uncached)}"
        + f" | {attempt.calls} {'call' if attempt.calls == 1 else 'calls'}"
        + f" | {duration(measured(attempt.seconds, attempt.at))}",
        "dim",
    )
    for earlier in loaded.earlier:
        old = earlier.attempt
        why = f"{old.status}: {old.reason}" if old.reason else old.status
        which = f"retry {old.retry}" if old.retry else "first attempt"
        yield TextBlock(f"{which}, made again by {earlier.chosen}: {why}, paid {dollars(old.cost_paid)}", "note")
        yield TextBlock(old.text or "(no text)", "dim", 2)
    yield TextBlock("\nscores", "heading")
    if not loaded.scores:
        yield TextBlock("not scored", "dim")
    for score in loaded.scores:
        word = "no score" if score.value is None else "right" if score.value >= 1 else "wrong"
        style = {"right": "right", "wrong": "wrong"}.get(word, "dim")
        if score.value is not None and 0 < score.value < 1:
            word, style = "partly", "dim"
        read = f"read as {score.prediction!r}, gold {gold.answer!r}" if question.options else ""
        parts = [f"{score.scorer}: {word}", percent(score.value, 1), score.answer_status, read, score.reason]
        yield TextBlock("  ".join(part for part in parts if part), style)
    yield TextBlock("\nanswer", "heading")
    yield TextBlock(attempt.text or "(no text)", markdown=True)
    yield from _arena_verdicts(loaded)


def _unfinished(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    live = loaded.in_flight
    if live is None:
        yield TextBlock("\nNot run yet.", "dim")
        return
    yield TextBlock("\nrunning", "heading")
    parts = [f"for {duration(max(0.0, loaded.now - live.at))}", number_of(live.calls, "call")]
    parts += [f"{tokens(live.tokens)} tokens", f"{dollars(live.cost_uncached)} uncached"]
    yield TextBlock(" | ".join(parts), "dim")
    if live.node:
        yield TextBlock(f"in {live.node}")
    for call in live.doing:
        yield TextBlock(f"{call.kind} call to {call.actor}: {call.what}", "key", 2)


def _arena_verdicts(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    for one in loaded.answer_verdicts:
        yield TextBlock(f"\nagainst {one.against}, shown {one.shown}, judged by {one.judge} ({one.arena})", "heading")
        for axis, said in one.axes.items():
            style = {"won": "right", "lost": "wrong", "tie": "plain"}.get(said, "trouble")
            why = f"  {one.reasons[axis]}" if one.reasons.get(axis) else ""
            yield TextBlock(f"{axis}: {said}{why}", style)
        if one.how != "asked":
            yield TextBlock(one.how, "note")
        for call in one.calls:
            reply = loaded.recorded(call).reply
            if call.error:
                yield TextBlock(f"error: {call.error}", "trouble")
            if reply is not None:
                yield TextBlock(reply.text, indent=2, markdown=True)


def _doing(loaded: LoadedAttempt, doing: LiveCall) -> Iterator[TextBlock]:
    since = duration(max(0.0, loaded.now - doing.at))
    yield TextBlock(f"{doing.kind} call in {doing.node or 'no node'}, for {since} so far", "heading")
    yield TextBlock(doing.actor)
    yield TextBlock(doing.what)


def _step(node: Node) -> Iterator[TextBlock]:
    step = node.step
    assert step is not None
    took = duration(node.figures.seconds) + (", not left" if step.seconds is None else "")
    yield TextBlock(f"step {step.index}: {node.label}  {took}", "heading")
    for child in node.children:
        yield TextBlock(f"{child.row.plain}  {_took(child)}", "trouble" if child.troubled else "plain")
    yield from _around(step)


def _around(step: Step) -> Iterator[TextBlock]:
    """What is known of a step beside its calls."""
    if step.error or step.notes:
        yield TextBlock("\nin this step", "heading")
    if step.error:
        yield TextBlock(f"error: {step.error}", "trouble")
    for note in step.notes:
        yield TextBlock(f"! {note.what}: {note.text}", "trouble" if note.what == "traceback" else "note")
    if step.changes:
        yield TextBlock("\nwrote to the state", "heading")
        yield TextBlock(json.dumps(step.changes, ensure_ascii=False, indent=2))


def _round(node: Node) -> Iterator[TextBlock]:
    yield TextBlock(f"{node.label}  {_took(node)}", "heading")
    for child in node.children:
        yield TextBlock(f"{child.folded.plain}  {_took(child)}", "trouble" if child.troubled else "plain", 2)


def _took(node: Node) -> str:
    figures = node.figures
    used = tokens(figures.tokens) if figures.tokens is not None else UNKNOWN
    return f"{duration(figures.seconds)}, {used} tokens, {dollars(figures.cost)}"


def _call(loaded: LoadedAttempt, call: Call) -> Iterator[TextBlock]:
    recorded = loaded.recorded(call)
    yield TextBlock(f"{call.kind} call, role {call.role}, in {call.node or 'no node'}", "heading")
    other = other_name(call.actor, call.model)
    yield TextBlock(call.actor + (f", answered by {other}" if other else ""))
    facts = ["from the journal: nothing paid" if call.cached else duration(measured(call.seconds, call.at))]
    if call.kind == "model":
        used = call.usage
        facts.append(f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown")
        facts.append(f"{dollars(call.cost_uncached)} uncached")
        if used and (used.cached or used.reasoning):
            facts.append(f"{tokens(used.cached)} of the input cached, {tokens(used.reasoning)} of the output reasoning")
    yield TextBlock(" | ".join(facts), "dim")
    for number, fault in enumerate(call.faults, 1):
        status = f" (HTTP {fault.status})" if fault.status else ""
        waited = f"; waited {duration(fault.waited)}" if fault.waited else ""
        yield TextBlock(f"try {number} failed: {fault.kind}{status}: {fault.message}{waited}", "trouble")
    if call.error:
        yield TextBlock(f"error: {call.error}", "trouble")
    if recorded.searched is not None:
        yield TextBlock(f"\nquery, {recorded.searched.k} wanted from {recorded.searched.corpus}", "heading")
        yield TextBlock(recorded.searched.query)
        for text in recorded.searched.mean:
            yield TextBlock(f"and the vector of: {text}", "note")
    if call.kind == "search" and not call.error:
        yield from _passages(loaded, call, recorded.passages)
    if recorded.asked is not None:
        yield from _request(recorded.asked)
    if recorded.reply is not None:
        yield from _reply(recorded.reply)
    if recorded.asked is None and recorded.searched is None:
        why = "imported: the messages were not published with it" if not call.key else "the journal does not hold it"
        yield TextBlock(f"\nNo messages: {why}.", "dim")


def _passages(loaded: LoadedAttempt, call: Call, passages: tuple[Passage, ...]) -> Iterator[TextBlock]:
    golden = set(loaded.summary.gold.documents)
    hits = sum(passage.document in golden or passage.id in golden for passage in passages)
    known = f", {hits} of {len(golden)} gold documents" if golden else ""
    yield TextBlock(f"\n{len(passages)} passages{known}", "heading")
    sources = {(passage.retriever, passage.corpus) for passage in passages}
    if len(sources) == 1:
        yield TextBlock(f"by {passages[0].retriever} from {passages[0].corpus}", "dim")
    found = later_prompts(loaded, call, passages)
    for passage in passages:
        gold = passage.document in golden or passage.id in golden
        source = f"  by {passage.retriever} from {passage.corpus}" if len(sources) > 1 else ""
        yield TextBlock(
            f"{'★ gold ' if gold else ''}{passage.rank}. {passage.id}  score {passage.score:.3f}{source}",
            "gold" if gold else "key",
        )
        if passage.title:
            yield TextBlock(passage.title, "key", 3)
        if passage.chunk:
            yield TextBlock(f"the whole document, found by its chunk {passage.chunk}", "note", 3)
        yield TextBlock(passage.text, "plain", 3)
        yield TextBlock(_reached(found[passage.id]), "note", 3)
    replies: set[str] = set()
    for use in (use for each in found.values() for use in each):
        if use.role == "reading" and use.reply and use.key not in replies:
            replies.add(use.key)
            yield TextBlock(f"\nkept by reading in {use.node}", "heading")
            yield TextBlock(use.reply, markdown=True)


def _reached(found: list[PromptUse]) -> str:
    if not found:
        return "in no later prompt"
    return "in the prompt of " + ", ".join(f"{use.node}{'' if use.whole else ' (cut)'}" for use in found)


def _request(asked: Request) -> Iterator[TextBlock]:
    if terms := terms_of(asked):
        yield TextBlock("asked for: " + terms, "dim")
    for message in asked.messages:
        yield from _message(message)
    if asked.prefix:
        yield TextBlock("\n[assistant, begun]", "heading")
        yield TextBlock(asked.prefix)


def _message(message: Message) -> Iterator[TextBlock]:
    answers = f", answers {message.answers}" if message.answers else ""
    name = f" {message.name}" if message.name else ""
    yield TextBlock(f"\n[{message.role}{name}{answers}]", "heading")
    yield TextBlock(message.content)
    for wish in message.calls:
        yield TextBlock(f"calls {wish.name}({wish.arguments})", "note")


def _reply(reply: Reply) -> Iterator[TextBlock]:
    name = f", {reply.model}" if reply.model else ""
    yield TextBlock(f"\n[reply, finish: {reply.finish}{name}]", "heading")
    if reply.reasoning:
        yield TextBlock(reply.reasoning, "note")
    yield TextBlock(reply.text or "(no text)", markdown=True)
    for wish in reply.calls:
        yield TextBlock(f"calls {wish.name}({wish.arguments})", "note")
    if likely := probability_of(reply):
        yield TextBlock(likely, "dim")


def later_prompts(loaded: LoadedAttempt, search: Call, passages: Sequence[Passage]) -> dict[str, list[PromptUse]]:
    """Passage id → the later model calls whose prompts held it."""
    found: dict[str, list[PromptUse]] = {passage.id: [] for passage in passages}
    at = next((place for place, one in enumerate(loaded.traced) if one.call is search), len(loaded.traced))
    for recorded in [one for one in loaded.traced[at + 1 :] if one.call.kind == "model"][:_LATER]:
        call = recorded.call
        if recorded.asked is None:
            continue
        prompt = "\n".join(message.content for message in recorded.asked.messages) + recorded.asked.prefix
        reply = recorded.reply.text if recorded.reply else ""
        for passage in passages:
            whole = passage.text in prompt
            if passage.text and (whole or passage.text[:_BEGINNING] in prompt):
                found[passage.id].append(PromptUse(call.key, call.node, call.role, whole, reply))
    return found
