"""What is shown of a node: the exact messages, the reply, the passages, scores, errors with their retries."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ragrounds.contracts import Request
from ragrounds.records import Call, Message, Passage, Reply
from ragrounds.ui.figures import UNKNOWN, dollars, duration, percent, tokens
from ragrounds.ui.trace.opened import Opened
from ragrounds.ui.trace.pieces import Piece
from ragrounds.ui.trace.shape import Node, measured
from ragrounds.ui.trace.uses import Use, uses


def detail(opened: Opened, node: Node) -> list[Piece]:
    """The pieces of a node's page."""
    if node.call is not None:
        return list(_call(opened, node.call))
    if node.step is not None:
        return list(_step(node))
    if node.kind in ("group", "round"):
        return list(_group(node))
    return list(_attempt(opened))


def _attempt(opened: Opened) -> Iterator[Piece]:
    outline, attempt = opened.outline, opened.attempt
    question, gold = outline.question, outline.gold
    yield Piece(
        f"{question.id}, {outline.run.agent}" + (f", epoch {outline.epoch}" if outline.epoch else ""), "heading"
    )
    yield Piece(question.text)
    for letter, text in question.options.items():
        right, chosen = letter == gold.answer, letter == outline.prediction
        mark = ("✓" if right else " ") + ("→" if chosen else " ")
        yield Piece(f"{mark} {letter}. {text}", "gold" if right else "wrong" if chosen else "plain")
    if not question.options:
        yield Piece(f"reference: {gold.answer}", "gold")
        for fact in gold.facts:
            yield Piece(f"required: {' | '.join(fact)}", "gold", 2)
    if attempt is None:
        yield Piece("\nNot run yet.", "dim")
        return
    yield Piece("\noutcome", "heading")
    style = "plain" if attempt.status == "completed" else "trouble"
    yield Piece(attempt.status + (f": {attempt.reason}" if attempt.reason else ""), style)
    used = attempt.usage
    yield Piece(
        (f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown")
        + f" | paid {dollars(attempt.cost_paid)}, uncached {dollars(attempt.cost_uncached)}"
        + f" | {attempt.calls} {'call' if attempt.calls == 1 else 'calls'}"
        + f" | {duration(measured(attempt.seconds, attempt.at))}",
        "dim",
    )
    yield Piece("\nscores", "heading")
    if not opened.scores:
        yield Piece("not scored", "dim")
    for score in opened.scores:
        word = "no score" if score.value is None else "right" if score.value >= 1 else "wrong"
        style = {"right": "right", "wrong": "wrong"}.get(word, "dim")
        if score.value is not None and 0 < score.value < 1:
            word, style = "partly", "dim"
        read = f"read as {score.prediction!r}, gold {gold.answer!r}" if question.options else ""
        parts = [f"{score.scorer}: {word}", percent(score.value, 1), score.answer_status, read, score.reason]
        yield Piece("  ".join(part for part in parts if part), style)
    yield Piece("\nanswer", "heading")
    yield Piece(attempt.text or "(no text)", markdown=True)
    yield from _judged(opened)


def _judged(opened: Opened) -> Iterator[Piece]:
    for one in opened.told:
        yield Piece(f"\nagainst {one.against}, shown {one.shown}, judged by {one.judge} ({one.arena})", "heading")
        for axis, said in one.axes.items():
            style = {"won": "right", "lost": "wrong", "tie": "plain"}.get(said, "trouble")
            why = f"  {one.reasons[axis]}" if one.reasons.get(axis) else ""
            yield Piece(f"{axis}: {said}{why}", style)
        if one.how != "asked":
            yield Piece(one.how, "note")
        for call in one.calls:
            reply = opened.recorded(call).reply
            if call.error:
                yield Piece(f"error: {call.error}", "trouble")
            if reply is not None:
                yield Piece(reply.text, indent=2, markdown=True)


def _step(node: Node) -> Iterator[Piece]:
    step = node.step
    assert step is not None
    took = "not left" if step.seconds is None else duration(measured(step.seconds, step.at))
    yield Piece(f"step {step.index}: {node.label}  {took}", "heading")
    if step.error:
        yield Piece(f"error: {step.error}", "trouble")
    for note in step.notes:
        yield Piece(f"! {note.what}: {note.text}", "trouble" if note.what == "traceback" else "note")
    for child in node.children:
        yield Piece(f"{child.label}  {_took(child)}", "trouble" if child.troubled else "plain")
    if step.changes:
        yield Piece("\nwrote to the state", "heading")
        yield Piece(json.dumps(step.changes, ensure_ascii=False, indent=2))


def _group(node: Node) -> Iterator[Piece]:
    yield Piece(f"{node.label}  {_took(node)}", "heading")
    for child in node.children:
        yield Piece(f"{child.label}  {_took(child)}", "trouble" if child.troubled else "plain", 2)


def _took(node: Node) -> str:
    figures = node.figures
    used = tokens(figures.tokens) if figures.tokens is not None else UNKNOWN
    return f"{duration(figures.seconds)}, {used} tokens, {dollars(figures.cost)}"


def _call(opened: Opened, call: Call) -> Iterator[Piece]:
    recorded = opened.recorded(call)
    yield Piece(f"{call.kind} call, role {call.role}, in {call.node or 'no node'}", "heading")
    yield Piece(call.actor)
    facts = ["from the journal: nothing paid" if call.cached else duration(measured(call.seconds, call.at))]
    if call.kind == "model":
        used = call.usage
        facts.append(f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown")
        facts.append(f"{dollars(call.cost_uncached)} uncached")
        if used and (used.cached or used.reasoning):
            facts.append(f"{tokens(used.cached)} of the input cached, {tokens(used.reasoning)} of the output reasoning")
    yield Piece(" | ".join(facts), "dim")
    for number, fault in enumerate(call.faults, 1):
        status = f" (HTTP {fault.status})" if fault.status else ""
        waited = f"; waited {duration(fault.waited)}" if fault.waited else ""
        yield Piece(f"try {number} failed: {fault.kind}{status}: {fault.message}{waited}", "trouble")
    if call.error:
        yield Piece(f"error: {call.error}", "trouble")
    if recorded.searched is not None:
        yield Piece(f"\nquery, {recorded.searched.k} wanted from {recorded.searched.corpus}", "heading")
        yield Piece(recorded.searched.query)
        for text in recorded.searched.mean:
            yield Piece(f"and the vector of: {text}", "note")
    if call.kind == "search" and not call.error:
        yield from _passages(opened, call, recorded.passages)
    if recorded.asked is not None:
        yield from _request(recorded.asked)
    if recorded.reply is not None:
        yield from _reply(recorded.reply)
    if recorded.asked is None and recorded.searched is None:
        why = "imported: the messages were not published with it" if not call.key else "the journal does not hold it"
        yield Piece(f"\nNo messages: {why}.", "dim")


def _passages(opened: Opened, call: Call, passages: tuple[Passage, ...]) -> Iterator[Piece]:
    golden = set(opened.outline.gold.documents)
    hits = sum(passage.document in golden or passage.id in golden for passage in passages)
    known = f", {hits} of {len(golden)} gold documents" if golden else ""
    yield Piece(f"\n{len(passages)} passages{known}", "heading")
    sources = {(passage.retriever, passage.corpus) for passage in passages}
    if len(sources) == 1:
        yield Piece(f"by {passages[0].retriever} from {passages[0].corpus}", "dim")
    found = uses(opened, call, passages)
    for passage in passages:
        gold = passage.document in golden or passage.id in golden
        source = f"  by {passage.retriever} from {passage.corpus}" if len(sources) > 1 else ""
        yield Piece(
            f"{'★ gold ' if gold else ''}{passage.rank}. {passage.id}  score {passage.score:.3f}{source}",
            "gold" if gold else "key",
        )
        if passage.title:
            yield Piece(passage.title, "key", 3)
        yield Piece(passage.text, "plain", 3)
        yield Piece(_reached(found[passage.id]), "note", 3)
    told: set[str] = set()
    for use in (use for each in found.values() for use in each):
        if use.role == "reading" and use.reply and use.key not in told:
            told.add(use.key)
            yield Piece(f"\nkept by reading in {use.node}", "heading")
            yield Piece(use.reply, markdown=True)


def _reached(found: list[Use]) -> str:
    if not found:
        return "in no later prompt"
    return "in the prompt of " + ", ".join(f"{use.node}{'' if use.whole else ' (cut)'}" for use in found)


def _request(asked: Request) -> Iterator[Piece]:
    wishes = [f"at most {asked.max_tokens} tokens"] if asked.max_tokens else []
    wishes += [f"stops at {asked.stop!r}"] if asked.stop else []
    wishes += [f"occurrence {asked.occurrence}"] if asked.occurrence else []
    wishes += ["provider's web search"] if asked.web_search else []
    wishes += [f"tools: {', '.join(tool.name for tool in asked.tools)}"] if asked.tools else []
    if wishes:
        yield Piece("asked for: " + "; ".join(wishes), "dim")
    for message in asked.messages:
        yield from _message(message)
    if asked.prefix:
        yield Piece("\n[assistant, begun]", "heading")
        yield Piece(asked.prefix)


def _message(message: Message) -> Iterator[Piece]:
    answers = f", answers {message.answers}" if message.answers else ""
    yield Piece(f"\n[{message.role}{answers}]", "heading")
    yield Piece(message.content)
    for wish in message.calls:
        yield Piece(f"calls {wish.name}({wish.arguments})", "note")


def _reply(reply: Reply) -> Iterator[Piece]:
    name = f", {reply.model}" if reply.model else ""
    yield Piece(f"\n[reply, finish: {reply.finish}{name}]", "heading")
    if reply.reasoning:
        yield Piece(reply.reasoning, "note")
    yield Piece(reply.text or "(no text)", markdown=True)
    for wish in reply.calls:
        yield Piece(f"calls {wish.name}({wish.arguments})", "note")
