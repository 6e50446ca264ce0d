"""The detail of a model call: turn by turn, what is new in a growing prompt first, the reply, then the prompt whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ragrounds.base.contracts import Request
from ragrounds.base.records import Message, Reply, ToolCall
from ragrounds.ui.call_words import probability_of, terms_of
from ragrounds.ui.text import number_of
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.replies import reply_blocks
from ragrounds.ui.trace.search_details import held_by

FOLD = 12
"""Lines that are shown of a long text while such are folded."""


class PromptPart(Struct, frozen=True):
    """A run of lines of a turn that are all new, or all stood in earlier prompts."""

    text: str
    new: bool


class PromptTurn(Struct, frozen=True):
    """A turn of a prompt in its parts."""

    role: str
    parts: tuple[PromptPart, ...]
    calls: tuple[ToolCall, ...] = ()

    @property
    def new(self) -> bool:
        """Whether anything in it is new."""
        return any(part.new for part in self.parts)


def prompt_turns(asked: Request, earlier: Iterable[Request]) -> list[PromptTurn]:
    """The turns of a prompt, with what is new in each: what stood in no earlier prompt of the attempt."""
    known = {(one.role, one.content, one.calls) for request in earlier for one in _whole_turns(request)}
    texts = {text for _, text, _ in known if text}
    lines = {line.strip() for text in texts for line in text.splitlines()}
    turns = []
    for one in _whole_turns(asked):
        parts = [PromptPart(one.content, new=False)]
        if (one.role, one.content, one.calls) not in known:
            parts = _parts(one.content, texts, lines)
            # A turn that asks for other tools, or has another role, is new though its text is not.
            parts = parts if any(part.new for part in parts) else [PromptPart(one.content, new=True)]
        turns.append(PromptTurn(one.role, tuple(parts), one.calls))
    return turns


def _parts(text: str, texts: set[str], lines: set[str]) -> list[PromptPart]:
    begun = max((len(known) for known in texts if text.startswith(known)), default=0)
    parts = [PromptPart(text[:begun], new=False)] if begun else []
    for line in text[begun:].splitlines(keepends=True):
        # An empty line is what stands before it.
        new = line.strip() not in lines if line.strip() or not parts else parts[-1].new
        if parts and parts[-1].new == new:
            parts[-1] = PromptPart(parts[-1].text + line, new)
        else:
            parts.append(PromptPart(line, new))
    return parts


def _whole_turns(request: Request) -> list[Message]:
    """The turns of a request; what the reply begins with already is the last."""
    return [*request.messages, *([Message("assistant", request.prefix)] if request.prefix else [])]


def exchange(loaded: LoadedAttempt, asked: Request, reply: Reply | None, place: int) -> Iterator[TextBlock]:
    """What a model was asked and answered; `place` is the call's among those of the attempt."""
    if terms := terms_of(asked):
        yield TextBlock("asked for: " + terms, "dim")
    if place >= 0 and (held := held_by(loaded, place)):
        yield TextBlock(f"passages in the prompt: {held}", "note")
    turns = prompt_turns(asked, [one.asked for one in loaded.traced[: max(0, place)] if one.asked is not None])
    parts = [part for turn in turns for part in turn.parts]
    new, size = sum(len(part.text) for part in parts if part.new), sum(len(part.text) for part in parts)
    grown = any(not part.new for part in parts)
    if grown:
        yield TextBlock(
            f"\nnew in this prompt: {new:,} of {size:,} characters; the rest was in earlier ones"
            if new
            else "\nnothing in this prompt is new: all of it was in earlier ones",
            "heading",
        )
        for turn in turns:
            if turn.new:
                yield from _turn(turn.role, _new_parts(turn), turn.calls)
    else:
        for message in asked.messages:
            answers = f", answers {message.answers}" if message.answers else ""
            name = f" {message.name}" if message.name else ""
            yield from _turn(f"{message.role}{name}{answers}", [(message.content, "plain")], message.calls)
        if asked.prefix:
            yield from _turn("assistant, begun", [(asked.prefix, "plain")])
    if reply is not None:
        yield from _reply(reply)
    if grown:
        yield TextBlock(
            f"\nthe whole prompt: {number_of(len(turns), 'turn')}, {size:,} characters", "heading", more=True
        )
        for turn in turns:
            whole = [(part.text, "plain" if part.new else "dim") for part in turn.parts]
            yield from _turn(turn.role, whole, turn.calls, more=True)


def _new_parts(turn: PromptTurn) -> list[tuple[str, str]]:
    made: list[tuple[str, str]] = []
    for part in turn.parts:
        if part.new:
            made.append((part.text, "plain"))
        elif part.text.strip():
            line = f"⋯ {number_of(len(part.text), 'character')} as before"
            made.append((f"\n{line}" if made else line, "dim"))
    return made


def _turn(
    title: str, parts: Sequence[tuple[str, str]], calls: Sequence[ToolCall] = (), more: bool = False
) -> Iterator[TextBlock]:
    yield TextBlock(f"\n[{title}]", "heading", more=more)
    for text, style in parts:
        shown = text if len(parts) == 1 or text.startswith("\n⋯") else text.strip("\n")
        if shown:
            yield TextBlock(shown, style, more=more, fold=FOLD)
    for wish in calls:
        yield TextBlock(f"calls {wish.name}({wish.arguments})", "note", more=more)


def _reply(reply: Reply) -> Iterator[TextBlock]:
    name = f", {reply.model}" if reply.model else ""
    yield TextBlock(f"\n[reply, finish: {reply.finish}{name}]", "heading")
    if reply.reasoning:
        yield TextBlock("reasoning:", "key")
        yield TextBlock(reply.reasoning, markdown=True, fold=FOLD)
        yield TextBlock("said:", "key")
    yield from reply_blocks(reply.text)
    for wish in reply.calls:
        yield TextBlock(f"calls {wish.name}({wish.arguments})", "note")
    if likely := probability_of(reply):
        yield TextBlock(likely, "dim")
