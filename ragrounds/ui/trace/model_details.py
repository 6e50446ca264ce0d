"""The detail of a model call: turn by turn, what is new in a growing prompt first, the reply, then the prompt whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ragrounds.contracts import Request
from ragrounds.records import Message, Reply, ToolCall
from ragrounds.ui.call_words import probability_of, terms_of
from ragrounds.ui.text import number_of
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.search_details import held_by

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
    yield TextBlock(reply.text or "(no text)")
    for wish in reply.calls:
        yield TextBlock(f"calls {wish.name}({wish.arguments})", "note")
    if likely := probability_of(reply):
        yield TextBlock(likely, "dim")


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


class EarlierPrompts:
    """The texts of an attempt's earlier prompts."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._texts: dict[str, None] = {}
        self._lines: set[str] = set()
        self._turns: set[tuple[str, str, tuple[ToolCall, ...]]] = set()
        for request in requests:
            for message in _whole_turns(request):
                self._turns.add((message.role, message.content, message.calls))
                if message.content and message.content not in self._texts:
                    self._texts[message.content] = None
                    self._lines.update(line.strip() for line in message.content.splitlines())

    def __bool__(self) -> bool:
        return bool(self._turns)

    def turns(self, request: Request) -> list[PromptTurn]:
        """The turns of a prompt, with what is new in each."""
        return [self._turn(message) for message in _whole_turns(request)]

    def _turn(self, message: Message) -> PromptTurn:
        if (message.role, message.content, message.calls) in self._turns:
            return PromptTurn(message.role, (PromptPart(message.content, new=False),), message.calls)
        text = message.content
        begun = max((len(known) for known in self._texts if text.startswith(known)), default=0)
        parts = [PromptPart(text[:begun], new=False)] if begun else []
        run: list[str] = []
        new: bool | None = None
        for line in text[begun:].splitlines(keepends=True):
            bare = line.strip()
            state = bare not in self._lines if bare else new
            if state != new and new is not None:
                parts.append(PromptPart("".join(run), new))
                run = []
            new = state if state is not None else new
            run.append(line)
        if run:
            parts.append(PromptPart("".join(run), bool(new)))
        # A turn that asks for other tools, or has another role, is new though its text is not.
        if not any(part.new for part in parts):
            parts = [PromptPart(text, new=True)]
        return PromptTurn(message.role, tuple(parts), message.calls)


def _whole_turns(request: Request) -> list[Message]:
    """The turns of a request; what the reply begins with already is the last."""
    return [*request.messages, *([Message("assistant", request.prefix)] if request.prefix else [])]


def new_share(turns: Sequence[PromptTurn]) -> tuple[int, int]:
    """Characters of the parts that are new, and of all."""
    parts = [part for turn in turns for part in turn.parts]
    return sum(len(part.text) for part in parts if part.new), sum(len(part.text) for part in parts)
