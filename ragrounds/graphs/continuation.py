"""Continuing a text that a model began and a search interrupted (Search-o1 and Search-R1).

Two ways, whichever the model's server can (`Context.continues`): by *prefix* the whole text so far is at the
beginning of the assistant's turn and the model writes on from its last character; by *turns* what the model wrote is an
assistant's turn and what the search found is the user's next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from typing_extensions import TypedDict, Unpack

from ragrounds.base.contracts import CallArguments, Context
from ragrounds.base.records import Message, Reply
from ragrounds.models.faults import CallFailed


class Part(TypedDict, total=False):
    """Part of the text so far."""

    by: Literal["model", "search"]
    text: str
    passages: list[str]
    """Ids of passages that are in the text in full. A graph writes them out again for each prompt."""
    notice: bool
    """True if the text is a notice of the graph, in place of search results."""


Write = Callable[[Part], str]
"""Function with which a graph writes a part into the text."""


def resumed(
    context: Context, prompt: Sequence[Message], parts: Sequence[Part], write: Write
) -> tuple[tuple[Message, ...], str]:
    """Return the messages and the prefix with which the model continues after `parts`."""
    if not parts:
        return tuple(prompt), ""
    if context.continues == "prefix":
        return tuple(prompt), whole_text(parts, write)
    turns: list[Message] = list(prompt)
    for part in parts:
        text = write(part)
        if part["by"] == "model":
            # Servers refuse an assistant's turn without any text.
            turns.append(Message("assistant", text if text.strip() else "…"))
        else:
            turns.append(Message("user", context.prompts.text("continuing/go_on", context.stem.language, found=text)))
    return tuple(turns), ""


def whole_text(parts: Sequence[Part], write: Write) -> str:
    """Write all parts as one text."""
    return "".join(write(part) for part in parts)


def put_back(reply: Reply, pairs: Mapping[str, str], *, close: bool = True) -> str:
    """Return the reply's text with the stop string that ended it, which most servers leave out.

    Args:
        reply: What the model wrote.
        close: True to close an open tag if the server does not name the stop string.
        pairs: Stop string → the string that opens what it closes. If the server does not name the stop string, an
            opened and unclosed tag identifies it. A model that opens a tag and ends by itself looks the same to
            such a server; its tag is then closed too. A text that was cut by its length is left as it is.
    """
    text = reply.text
    if reply.stopped_at in pairs:
        return text if text.endswith(reply.stopped_at) else text + reply.stopped_at
    if reply.finish == "stop" and close:
        opened = {end: text.rfind(begin) for end, begin in pairs.items() if text.rfind(begin) > text.rfind(end)}
        if opened:
            return text + max(opened, key=lambda end: opened[end])
    return text


async def asked_within(
    context: Context, messages: Sequence[Message], turn: int, **arguments: Unpack[CallArguments]
) -> Reply | None:
    """Ask for another chunk.

    If the model's window has no room for it, return ``None`` and add the note ``window_full``. If the window is
    unknown, the server's refusal shows that it is full. A conversation that is too long ends its loop, as it does if
    the window is known, and not the attempt.
    """
    prefix = arguments.get("prefix")
    room = context.room((*messages, Message("assistant", prefix)) if prefix else messages)
    if room != 0:
        try:
            return await context.ask(messages, **arguments)
        except CallFailed as failed:
            if failed.kind != "context_too_long":
                raise
    context.note("window_full", f"the model's window was full before turn {turn}")
    return None
