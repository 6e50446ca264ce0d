"""What is new in a prompt that grows: the part of it that no earlier prompt of the attempt held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ragrounds.contracts import Request
from ragrounds.records import Message, ToolCall


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
            for message in whole_turns(request):
                self._turns.add((message.role, message.content, message.calls))
                if message.content and message.content not in self._texts:
                    self._texts[message.content] = None
                    self._lines.update(line.strip() for line in message.content.splitlines())

    def __bool__(self) -> bool:
        return bool(self._turns)

    def turns(self, request: Request) -> list[PromptTurn]:
        """The turns of a prompt, with what is new in each."""
        return [self._turn(message) for message in whole_turns(request)]

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


def whole_turns(request: Request) -> list[Message]:
    """The turns of a request; what the reply begins with already is the last."""
    return [*request.messages, *([Message("assistant", request.prefix)] if request.prefix else [])]


def new_share(turns: Sequence[PromptTurn]) -> tuple[int, int]:
    """Characters of the parts that are new, and of all."""
    parts = [part for turn in turns for part in turn.parts]
    return sum(len(part.text) for part in parts if part.new), sum(len(part.text) for part in parts)
