"""Passages on their way into a prompt: cut to the model's window, ordered and written out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Message, Passage

ORDERS = ("best_first", "best_last", "reversed", "shuffled")
FORMATS = ("plain", "medrag", "search_r1")
"""Forms in which documents are written out: our own, or those of the programs of MedRAG and of Search-R1."""


def render_documents(passages: Sequence[Passage], form: str = "plain") -> str:
    """Return the documents' part of a prompt.

    Args:
        passages: Passages in the order of reading.
        form: ``plain``: numbered from 0, a title on a line of its own, a blank line between documents. ``medrag``:
            numbered from 0, one line a document with its title in brackets, also an empty one (MedRAG, src/medrag.py).
            ``search_r1``: the same, numbered from 1 (Search-R1, search_r1/llm_agent/generation.py), as its
            checkpoints were trained.

    Raises:
        UserError: the form is unknown.
    """
    if form == "plain":
        return (
            "\n\n".join(_numbered_document(number, passage) for number, passage in enumerate(passages))
            or "(none found)"
        )
    if form == "medrag":
        lines = (
            f"Document [{number}] (Title: {passage.title}) {passage.text}" for number, passage in enumerate(passages)
        )
        return "\n".join(lines)
    if form == "search_r1":
        return "".join(
            f"Doc {number}(Title: {passage.title}) {passage.text}\n" for number, passage in enumerate(passages, 1)
        )
    raise UserError(f"Unknown document_format {form!r}.{nearest(form, FORMATS)} Known: {', '.join(FORMATS)}.")


def render_documents_for(
    context: Context, passages: Sequence[Passage], prompt: Callable[[str], Sequence[Message]]
) -> str:
    """Return the documents' part of a prompt according to the agent's parameters: fitted, ordered and written out.

    With ``document_format=medrag`` the whole text is cut on the right to `context_tokens` tokens, wherever that falls,
    as MedRAG does; else as :func:`fitted`.

    Args:
        context: The attempt.
        passages: Best first.
        prompt: The prompt around the documents.
    """
    form, order = str(context.parameters.get("document_format", "plain")), context.parameters.get("order", "best_first")
    if form == "plain":
        return render_documents(ordered(fitted(context, passages, prompt), str(order), context.seed))
    text, room = render_documents(ordered(passages, str(order), context.seed), form), room_for(context, prompt(""))
    if room is None or context.count(text) <= room:
        return text
    context.note("cut", f"of the {len(passages)} passages only the first {room} tokens were shown")
    return context.cut(text, room)


def room_for(context: Context, around: Sequence[Message], role: str = "answering") -> int | None:
    """Return the tokens that documents may take: the rest of the model's window besides `around`, and at most
    `context_tokens`, a parameter of the agent (MIRAGE Section 4.1 gives one for each model). Return ``None`` if neither
    is known.
    """
    room, bound = context.room(around, role=role), context.parameters.get("context_tokens")
    if isinstance(bound, int) and bound > 0:
        return bound if room is None else min(room, bound)
    return room


def fitted(
    context: Context,
    passages: Sequence[Passage],
    prompt: Callable[[str], Sequence[Message]],
    *,
    role: str = "answering",
) -> tuple[Passage, ...]:
    """Return those of `passages`, best first, that fit the model's window together with the rest of `prompt`.

    As MedRAG does, the context is cut on the right: the last passage may lose its end. :func:`room_for` computes the
    room. If it is unknown, nothing is cut. A cut is noted in the trace.
    """
    room = room_for(context, prompt(""), role)
    if room is None:
        return tuple(passages)
    fitting: list[Passage] = []
    for number, passage in enumerate(passages):
        # Two more for the blank line between documents.
        size = context.count(_numbered_document(number, passage), role=role) + 2
        if size > room:
            frame = context.count(_numbered_document(number, replace(passage, text="")), role=role) + 2
            rest = context.cut(passage.text, room - frame, role=role) if room > frame else ""
            if rest:
                fitting.append(replace(passage, text=rest))
            dropped = len(passages) - len(fitting)
            context.note(
                "cut", f"the context was full after {len(fitting)} of {len(passages)} passages; {dropped} dropped"
            )
            break
        room -= size
        fitting.append(passage)
    return tuple(fitting)


def beginnings(passages: Sequence[Passage], characters: int) -> tuple[Passage, ...]:
    """Return each passage with at most `characters` of its text (Search-o1 takes 3,000); with 0 all of it."""
    if not characters:
        return tuple(passages)
    return tuple(replace(passage, text=passage.text[:characters]) for passage in passages)


def ordered(passages: Sequence[Passage], order: str, seed: str) -> tuple[Passage, ...]:
    """Put passages (best first) into the order in which the model reads them, for studies of lost-in-the-middle.

    `best_last` moves only the best to the end, `reversed` turns the whole ranking round, `shuffled` shuffles by `seed`.
    """
    if order == "best_first":
        return tuple(passages)
    if order == "best_last":
        return (*passages[1:], *passages[:1])
    if order == "reversed":
        return tuple(reversed(passages))
    if order == "shuffled":
        shuffled = list(passages)
        random.Random(seed).shuffle(shuffled)
        return tuple(shuffled)
    raise UserError(f"Unknown order {order!r}.{nearest(order, ORDERS)} Known: {', '.join(ORDERS)}.")


def _numbered_document(number: int, passage: Passage) -> str:
    title = f" (Title: {passage.title})" if passage.title else ""
    return f"Document [{number}]{title}\n{passage.text}"
