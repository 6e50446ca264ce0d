"""The detail of a model call: turn by turn, what is new in a growing prompt first, the reply, then the prompt whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragrounds.contracts import Request
from ragrounds.records import Reply, ToolCall
from ragrounds.ui.call_words import probability_of, terms_of
from ragrounds.ui.text import number_of
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.prompt_parts import EarlierPrompts, PromptTurn, new_share
from ragrounds.ui.trace.search_details import held_by
from ragrounds.ui.trace.tree import LoadedAttempt

PASSAGE_ENDS = "[the passage ends here]"
_BEGINNING = 80
"""Characters by which a passage that was cut is known again."""


def exchange(loaded: LoadedAttempt, asked: Request, reply: Reply | None, place: int) -> Iterator[TextBlock]:
    """What a model was asked and answered; `place` is the call's among those of the attempt."""
    if terms := terms_of(asked):
        yield TextBlock("asked for: " + terms, "dim")
    if place >= 0 and (held := held_by(loaded, place)):
        yield TextBlock(f"passages in the prompt: {held}", "note")
    earlier = EarlierPrompts(one.asked for one in loaded.traced[: max(0, place)] if one.asked is not None)
    turns = earlier.turns(asked)
    cut = [one.passage.text for hop in loaded.hops for one in hop.found if place in one.cut_in] if place >= 0 else []
    new, size = new_share(turns)
    grown = bool(earlier) and any(not part.new for turn in turns for part in turn.parts)
    if not grown:
        for number, message in enumerate(asked.messages):
            answers = f", answers {message.answers}" if message.answers else ""
            name = f" {message.name}" if message.name else ""
            yield from _turn(
                f"{message.role}{name}{answers}", with_ends([(message.content, "plain")], cut), turns[number].calls
            )
        if asked.prefix:
            yield from _turn("assistant, begun", [(asked.prefix, "plain")])
    elif new:
        yield TextBlock(
            f"\nnew in this prompt: {new:,} of {size:,} characters; the rest stood in earlier ones", "heading"
        )
        for turn in turns:
            if turn.new:
                yield from _turn(turn.role, with_ends(_new_parts(turn), cut), turn.calls)
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
            yield from _turn(turn.role, with_ends(parts, cut), turn.calls, more=True)


def _new_parts(turn: PromptTurn) -> list[tuple[str, str]]:
    made: list[tuple[str, str]] = []
    for part in turn.parts:
        if part.new:
            made.append((part.text, "plain"))
        elif part.text.strip():
            line = f"⋯ {number_of(len(part.text), 'character')} as before"
            made.append((f"\n{line}" if made else line, "dim"))
    return made


def with_ends(parts: Sequence[tuple[str, str]], cut: Sequence[str]) -> list[tuple[str, str]]:
    """Texts with their styles, parted where a passage ends early, which a line says: else it looks like a cut of the
    viewer's own.

    Args:
        parts: text and style.
        cut: the texts of passages that stand there with their beginning alone.
    """
    made: list[tuple[str, str]] = []
    for text, style in parts:
        begin = 0
        for end in sorted({end for passage in cut if (end := _early_end(text, passage))}):
            made += [(text[begin:end], style), (PASSAGE_ENDS, "dim")]
            begin = end
        if text[begin:] or not begin:
            made.append((text[begin:], style))
    return made


def _early_end(text: str, passage: str) -> int:
    """Where the beginning of a passage ends in a text, white space apart; 0: it stands there whole, or not at all."""
    flat = " ".join(passage.split())
    first = flat[:_BEGINNING].split()
    found = re.search(r"\s+".join(map(re.escape, first)), text) if first else None
    if found is None:
        return 0
    at, read = found.end(), len(" ".join(first))
    while at < len(text) and read < len(flat):
        if flat[read] == " " and text[at].isspace():
            while at < len(text) and text[at].isspace():
                at += 1
        elif text[at] == flat[read]:
            at += 1
        else:
            break
        read += 1
    return len(text[:at].rstrip()) if read < len(flat) else 0


def _turn(
    title: str, parts: Sequence[tuple[str, str]], calls: Sequence[ToolCall] = (), more: bool = False
) -> Iterator[TextBlock]:
    yield TextBlock(f"\n[{title}]", "heading", more=more)
    for text, style in parts:
        shown = text if len(parts) == 1 or text.startswith("\n⋯") else text.strip("\n")
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
