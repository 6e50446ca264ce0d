"""Detail of a model call: the prompt by turns, folded where an earlier prompt had the same text, and the reply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from ragrounds.base.contracts import Request
from ragrounds.base.records import Message, Reply
from ragrounds.ui.call_words import probability_of, terms_of
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.replies import reply_blocks
from ragrounds.ui.trace.search_details import held_by

FOLD, _KNOWN = 12, 1
"""Lines shown of a folded text, and of a folded text that an earlier prompt had."""


class PromptPart(Struct, frozen=True):
    """Lines of a turn that are all new, or were all in earlier prompts."""

    text: str
    new: bool


def prompt_turns(model_request: Request, earlier: Iterable[Request]) -> list[tuple[Message, list[PromptPart]]]:
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
        turns.append((message, parts))
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
    for message, parts in prompt_turns(
        request, [call.asked for call in loaded.traced[: max(0, call_number)] if call.asked is not None]
    ):
        answers = f", answers {message.answers}" if message.answers else ""
        name = f" {message.name}" if message.name else ""
        yield TextBlock(f"\n[{message.role}{name}{answers}]", "heading")
        for part in parts:
            text = part.text if part is parts[-1] else part.text.removesuffix("\n")
            yield TextBlock(text, "plain" if part.new else "dim", fold=FOLD if part.new else _KNOWN)
        for wish in message.calls:
            yield TextBlock(f"calls {wish.name}({wish.arguments})", "note")
    if reply is not None:
        yield from _reply(reply)


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
