"""The hops of an attempt: what each of its searches asked and found, and what became of that.

A hop is a search that gave a result or failed, in the order of the calls. Whether a passage was seen is derived from
the prompts that were recorded after it: a passage is in a prompt where its text stands in a message, whole or, cut to
the model's window, its beginning. Gold is by document or passage id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.evals.store.traces import TracedCall
from ragrounds.records import Gold, Passage

Fate = Literal["seen", "cut", "not seen"]
"""What became of a passage: whole in a later prompt, its beginning in one, in none."""


class FoundPassage(Struct, frozen=True, kw_only=True):
    """A passage as one search found it."""

    passage: Passage
    rank: int
    """From 1."""
    gold: bool
    new: bool
    """No earlier search of the attempt found it."""
    fate: Fate
    prompts: tuple[int, ...] = ()
    """The later model calls whose prompts held it, by their places among the calls of the attempt."""


class Hop(Struct, frozen=True, kw_only=True):
    """One search of an attempt."""

    number: int
    """From 1."""
    call: int
    """Its place among the calls of the attempt, from 0."""
    traced: TracedCall
    query: str
    """Empty: the journal does not hold it."""
    repeats: int | None
    """The earlier hop that asked the same, case and white space apart; ``None``: none did."""
    found: tuple[FoundPassage, ...]
    error: str

    @property
    def gold_ranks(self) -> tuple[int, ...]:
        """The ranks of gold passages, best first."""
        return tuple(one.rank for one in self.found if one.gold)

    @property
    def new(self) -> int:
        """Passages that no earlier search of the attempt found."""
        return sum(one.new for one in self.found)


_BEGINNING = 80
"""Characters by which a passage that was cut is known again."""


def hops_of(calls: Sequence[TracedCall], gold: Gold) -> tuple[Hop, ...]:
    """The hops among all calls of an attempt, which are given in their order."""
    prompts = [(place, _prompt(call)) for place, call in enumerate(calls) if call.asked is not None]
    golden, known, asked = set(gold.documents), set[str](), dict[str, int]()
    hops: list[Hop] = []
    for place, call in enumerate(calls):
        if call.call.kind != "search":
            continue
        number, query = len(hops) + 1, call.searched.query if call.searched else ""
        later = [(at, prompt) for at, prompt in prompts if at > place]
        found = tuple(_found(passage, rank, golden, known, later) for rank, passage in enumerate(call.passages, 1))
        known.update(passage.id for passage in call.passages)
        plain = " ".join(query.casefold().split())
        hops.append(
            Hop(
                number=number,
                call=place,
                traced=call,
                query=query,
                repeats=asked.get(plain) if plain else None,
                found=found,
                error=call.call.error,
            )
        )
        asked.setdefault(plain, number)
    return tuple(hops)


def is_gold(passage: Passage, golden: set[str]) -> bool:
    """Whether a passage is one of the gold documents, or a part of one."""
    return passage.document in golden or passage.id in golden


def _found(
    passage: Passage, rank: int, golden: set[str], known: set[str], later: Sequence[tuple[int, str]]
) -> FoundPassage:
    text, beginning = passage.text, passage.text[:_BEGINNING]
    whole = [at for at, prompt in later if text and text in prompt]
    cut = [at for at, prompt in later if text and at not in whole and beginning in prompt]
    return FoundPassage(
        passage=passage,
        rank=rank,
        gold=is_gold(passage, golden),
        new=passage.id not in known,
        fate="seen" if whole else "cut" if cut else "not seen",
        prompts=tuple(sorted((*whole, *cut))),
    )


def _prompt(call: TracedCall) -> str:
    if call.asked is None:
        return ""
    return "\n".join(message.content for message in call.asked.messages) + call.asked.prefix
