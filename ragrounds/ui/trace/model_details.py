"""Detail of a model call, by turns: the new part of a growing prompt first, the reply, then the whole prompt."""

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
"""Lines shown of a folded text."""


class PromptPart(Struct, frozen=True):
    """Lines of a turn that are all new, or were all in earlier prompts."""

    text: str
    new: bool


class PromptTurn(Struct, frozen=True):
    """Turn of a prompt in its parts."""

    role: str
    parts: tuple[PromptPart, ...]
    calls: tuple[ToolCall, ...] = ()

    @property
    def new(self) -> bool:
        """True if any part of it is new."""
        return any(part.new for part in self.parts)


def prompt_turns(model_request: Request, earlier: Iterable[Request]) -> list[PromptTurn]:
    """Return the turns of a prompt, each split into new text and text of earlier prompts of the attempt."""
    earlier_turns = {(turn.role, turn.content, turn.calls) for request in earlier for turn in _whole_turns(request)}
    texts = {text for _, text, _ in earlier_turns if text}
    lines = {line.strip() for text in texts for line in text.splitlines()}
    turns = []
    for message in _whole_turns(model_request):
        parts = [PromptPart(message.content, new=False)]
        if (message.role, message.content, message.calls) not in earlier_turns:
            parts = _parts(message.content, texts, lines)
            # A turn with other tool calls, or of another role, is new even if its text is not.
            parts = parts if any(part.new for part in parts) else [PromptPart(message.content, new=True)]
        turns.append(PromptTurn(message.role, tuple(parts), message.calls))
    return turns


def _parts(text: str, texts: set[str], lines: set[str]) -> list[PromptPart]:
    known_length = max((len(earlier) for earlier in texts if text.startswith(earlier)), default=0)
    parts = [PromptPart(text[:known_length], new=False)] if known_length else []
    for line in text[known_length:].splitlines(keepends=True):
        # An empty line belongs to the part before it.
        new = line.strip() not in lines if line.strip() or not parts else parts[-1].new
        if parts and parts[-1].new == new:
            parts[-1] = PromptPart(parts[-1].text + line, new)
        else:
            parts.append(PromptPart(line, new))
    return parts


def _whole_turns(request: Request) -> list[Message]:
    """Return the turns of a request; a prefix of the reply is the last turn."""
    return [*request.messages, *([Message("assistant", request.prefix)] if request.prefix else [])]


def exchange(loaded: LoadedAttempt, request: Request, reply: Reply | None, call_number: int) -> Iterator[TextBlock]:
    """Yield the request to a model and its reply.

    Args:
        loaded: the attempt.
        request: the request.
        reply: the reply; ``None``: the call failed.
        call_number: number of the call in the attempt.
    """
    if terms := terms_of(request):
        yield TextBlock("asked for: " + terms, "dim")
    if call_number >= 0 and (passages := held_by(loaded, call_number)):
        yield TextBlock(f"passages in the prompt: {passages}", "note")
    turns = prompt_turns(
        request, [call.asked for call in loaded.traced[: max(0, call_number)] if call.asked is not None]
    )
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
        for message in request.messages:
            answers = f", answers {message.answers}" if message.answers else ""
            name = f" {message.name}" if message.name else ""
            yield from _turn(f"{message.role}{name}{answers}", [(message.content, "plain")], message.calls)
        if request.prefix:
            yield from _turn("assistant, begun", [(request.prefix, "plain")])
    if reply is not None:
        yield from _reply(reply)
    if grown:
        yield TextBlock(
            f"\nthe whole prompt: {number_of(len(turns), 'turn')}, {size:,} characters", "heading", more=True
        )
        for turn in turns:
            all_parts = [(part.text, "plain" if part.new else "dim") for part in turn.parts]
            yield from _turn(turn.role, all_parts, turn.calls, more=True)


def _new_parts(turn: PromptTurn) -> list[tuple[str, str]]:
    pieces: list[tuple[str, str]] = []
    for part in turn.parts:
        if part.new:
            pieces.append((part.text, "plain"))
        elif part.text.strip():
            line = f"⋯ {number_of(len(part.text), 'character')} as before"
            pieces.append((f"\n{line}" if pieces else line, "dim"))
    return pieces


def _turn(
    title: str, parts: Sequence[tuple[str, str]], calls: Sequence[ToolCall] = (), more: bool = False
) -> Iterator[TextBlock]:
    yield TextBlock(f"\n[{title}]", "heading", more=more)
    for text, style in parts:
        content = text if len(parts) == 1 or text.startswith("\n⋯") else text.strip("\n")
        if content:
            yield TextBlock(content, style, more=more, fold=FOLD)
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
