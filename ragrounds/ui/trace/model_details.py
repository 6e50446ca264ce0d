"""The detail of a model call: turn by turn, what is new in a growing prompt first, the reply, then the prompt whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragrounds.contracts import Request
from ragrounds.records import Reply, ToolCall
from ragrounds.ui.call_words import probability_of, terms_of
from ragrounds.ui.text import number_of
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.prompt_parts import EarlierPrompts, PromptTurn, new_share
from ragrounds.ui.trace.search_details import held_by
from ragrounds.ui.trace.tree import LoadedAttempt


def exchange(loaded: LoadedAttempt, asked: Request, reply: Reply | None, place: int) -> Iterator[TextBlock]:
    """What a model was asked and answered; `place` is the call's among those of the attempt."""
    if terms := terms_of(asked):
        yield TextBlock("asked for: " + terms, "dim")
    if place >= 0 and (held := held_by(loaded, place)):
        yield TextBlock(f"passages in the prompt: {held}", "note")
    earlier = EarlierPrompts(one.asked for one in loaded.traced[: max(0, place)] if one.asked is not None)
    turns = earlier.turns(asked)
    new, size = new_share(turns)
    grown = bool(earlier) and any(not part.new for turn in turns for part in turn.parts)
    if not grown:
        for number, message in enumerate(asked.messages):
            answers = f", answers {message.answers}" if message.answers else ""
            name = f" {message.name}" if message.name else ""
            yield from _turn(f"{message.role}{name}{answers}", [(message.content, "plain")], turns[number].calls)
        if asked.prefix:
            yield from _turn("assistant, begun", [(asked.prefix, "plain")])
    elif new:
        yield TextBlock(
            f"\nnew in this prompt: {new:,} of {size:,} characters; the rest stood in earlier ones", "heading"
        )
        for turn in turns:
            if turn.new:
                yield from _turn(turn.role, _new_parts(turn), turn.calls)
    else:
        yield TextBlock("\nnothing in this prompt is new: all of it stood in earlier ones", "heading")
    if reply is not None:
        yield from _reply(reply)
    if grown:
        yield TextBlock(
            f"\nthe whole prompt: {number_of(len(turns), 'turn')}, {size:,} characters", "heading", more=True
        )
        for turn in turns:
            parts = [(part.text, "plain" if part.new else "dim") for part in turn.parts]
            yield from _turn(turn.role, parts, turn.calls, more=True)


def _new_parts(turn: PromptTurn) -> list[tuple[str, str]]:
    made: list[tuple[str, str]] = []
    for part in turn.parts:
        if part.new:
            made.append((part.text, "plain"))
        elif part.text.strip():
            made.append((f"⋯ {number_of(len(part.text), 'character')} as before", "dim"))
    return made


def _turn(
    title: str, parts: Sequence[tuple[str, str]], calls: Sequence[ToolCall] = (), more: bool = False
) -> Iterator[TextBlock]:
    yield TextBlock(f"\n[{title}]", "heading", more=more)
    for text, style in parts:
        shown = text if len(parts) == 1 else text.strip("\n")
        if shown:
            yield TextBlock(shown, style, more=more)
    for wish in calls:
        yield TextBlock(f"calls {wish.name}({wish.arguments})", "note", more=more)


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
