"""Passages on their way into a prompt: cut to the model's window, put in order, written out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ragrounds.contracts import Context
from ragrounds.errors import UserError, nearest
from ragrounds.records import Message, Passage

ORDERS = ("best_first", "best_last", "reversed", "shuffled")


def written(passages: Sequence[Passage]) -> str:
    """The documents' part of a prompt, numbered from 0 as MedRAG does."""
    return "\n\n".join(_one(number, passage) for number, passage in enumerate(passages)) or "(none found)"


def fitted(
    context: Context,
    passages: Sequence[Passage],
    prompt: Callable[[str], Sequence[Message]],
    *,
    role: str = "answering",
) -> tuple[Passage, ...]:
    """Those of `passages`, best first, that fit the model's window beside the rest of `prompt`.

    As MedRAG does, the context is cut on the right: the last passage may lose its end. `context_tokens`, a parameter
    of the agent, is an upper bound of its own (MIRAGE Section 4.1 gives one for each model). Neither known: nothing is
    cut. What was cut is noted in the trace.
    """
    room = context.room(prompt(""), role=role)
    bound = context.parameters.get("context_tokens")
    if isinstance(bound, int) and bound > 0:
        room = bound if room is None else min(room, bound)
    if room is None:
        return tuple(passages)
    kept: list[Passage] = []
    for number, passage in enumerate(passages):
        # Two more for the blank line between documents.
        size = context.count(_one(number, passage), role=role) + 2
        if size > room:
            frame = context.count(_one(number, replace(passage, text="")), role=role) + 2
            rest = context.cut(passage.text, room - frame, role=role) if room > frame else ""
            if rest:
                kept.append(replace(passage, text=rest))
            dropped = len(passages) - len(kept)
            context.note(
                "cut", f"the context was full after {len(kept)} of {len(passages)} passages; {dropped} dropped"
            )
            break
        room -= size
        kept.append(passage)
    return tuple(kept)


def beginnings(passages: Sequence[Passage], characters: int) -> tuple[Passage, ...]:
    """Each passage with at most `characters` of its text (Search-o1 takes 3,000); 0: all of it."""
    if not characters:
        return tuple(passages)
    return tuple(replace(passage, text=passage.text[:characters]) for passage in passages)


def ordered(passages: Sequence[Passage], order: str, seed: str) -> tuple[Passage, ...]:
    """Put passages (best first) into the order the model reads them in, for studies of lost-in-the-middle.

    `best_last` moves only the best to the end, `reversed` turns the whole ranking round, `shuffled` draws by `seed`.
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


def _one(number: int, passage: Passage) -> str:
    title = f" (Title: {passage.title})" if passage.title else ""
    return f"Document [{number}]{title}\n{passage.text}"
