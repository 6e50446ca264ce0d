"""The hops of an attempt: what each of its searches asked and found, and what became of that.

A hop is a search that gave a result or failed, in the order of the calls. Whether a passage was seen is derived from
the prompts that were recorded after it: a passage is in a prompt where its text stands in a message, whole or, cut to
the model's window, its beginning. Gold is by document or passage id.

What a system of somebody's own has read is told at its end, where nothing has heard the search itself. Its place among
the calls is not known then: every prompt of the attempt is looked into, and a passage that is in none is *not known*.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct

from ragrounds.base.records import Attempt, Gold, Noted, Passage
from ragrounds.evals.trace.traces import TracedCall

Fate = Literal["seen", "cut", "not seen", "not known"]
"""What became of a passage: whole in a later prompt, its beginning in one, in none; or that cannot be told."""
FATES: tuple[Fate, ...] = ("seen", "cut", "not seen", "not known")
"""All of them, the best first."""
SYSTEMS_OWN = "the system's own"
"""The corpus of a search inside a foreign system's process."""
PROVIDERS_OWN = "the provider's own"
"""That of a search which a provider made inside a model call: that call saw what was found, and no prompt holds it."""


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
    cut_in: tuple[int, ...] = ()
    """Those of `prompts` that held only its beginning."""


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
    untimed: bool = False
    """A system told of it at its end: which calls came after it is not known."""

    @property
    def gold_ranks(self) -> tuple[int, ...]:
        """The ranks of gold passages, best first."""
        return tuple(one.rank for one in self.found if one.gold)

    @property
    def new(self) -> int:
        """Passages that no earlier search of the attempt found."""
        return sum(one.new for one in self.found)


NOT_HEARD = "no_search_heard"
NOT_HEARD_WORDS = "no search was recorded, and searches inside its own process may be missing"
"""The note of an attempt of a foreign system that told of no search, and in whose recorded calls none stood."""
_BEGINNING = 80
"""Characters by which a passage that was cut is known again."""
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
"""How JSON writes a letter that it does not write as it is."""


def searches_unknown(attempt: Attempt, calls: Sequence[TracedCall]) -> str:
    """Why it is not known whether an attempt without a recorded search made one; empty: its calls say that it did not.

    Args:
        attempt: without hops.
        calls: of it, all that were recorded.
    """
    messages = [message for call in calls if call.asked is not None for message in call.asked.messages]
    asked = [tool.name for call in calls if call.reply for tool in call.reply.calls]
    asked += [tool.name for message in messages for tool in message.calls]
    asked += [call.call.actor for call in calls if call.call.kind == "tool"]
    if asked or any(message.role == "tool" for message in messages):
        names = f" {', '.join(list(dict.fromkeys(asked))[:3])}" if asked else ""
        return f"it called tools{names}; whether they searched is not known"
    if any(isinstance(event, Noted) and event.what == NOT_HEARD for event in attempt.events):
        return f"{NOT_HEARD_WORDS}: whether it searched is not known"
    if attempt.unrecorded or (not messages and not (calls and all(call.call.error for call in calls))):
        return "calls of it are not recorded: whether it searched is not known"
    return ""


def hops_of(calls: Sequence[TracedCall], gold: Gold, only_gold: bool = False) -> tuple[Hop, ...]:
    """The hops among all calls of an attempt.

    Args:
        calls: in their order.
        gold: of the question.
        only_gold: look into the prompts for gold passages alone: the fate of every other one says nothing.
    """
    prompts = [(place, _Prompt(call)) for place, call in enumerate(calls) if call.asked is not None]
    replied = any(call.call.kind == "model" and not call.call.error for call in calls)
    golden, known, asked = set(gold.documents), set[str](), dict[str, int]()
    hops: list[Hop] = []
    for place, call in enumerate(calls):
        if call.call.kind != "search":
            continue
        number, query = len(hops) + 1, call.searched.query if call.searched else ""
        untimed = _is_untimed(call, calls[place + 1 :])
        later = [(at, prompt) for at, prompt in prompts if untimed or at > place]
        inside = call.searched is not None and call.searched.corpus == PROVIDERS_OWN
        otherwise: Fate = "not known" if untimed or inside or (replied and not prompts) else "not seen"
        found = tuple(
            _found(passage, rank, is_gold(passage, golden), passage.id not in known, later, only_gold, otherwise)
            for rank, passage in enumerate(call.passages, 1)
        )
        known.update(passage.id for passage in call.passages)
        plain = plain_query(query)
        hops.append(
            Hop(
                number=number,
                call=place,
                traced=call,
                query=query,
                repeats=asked.get(plain) if plain else None,
                found=found,
                error=call.call.error,
                untimed=untimed,
            )
        )
        asked.setdefault(plain, number)
    return tuple(hops)


def _is_untimed(call: TracedCall, after: Sequence[TracedCall]) -> bool:
    """Whether a system told of a search at its end: in no node, and behind every model call."""
    own = call.searched is not None and call.searched.corpus == SYSTEMS_OWN
    return own and not call.call.node and not any(one.call.kind == "model" for one in after)


def is_gold(passage: Passage, golden: set[str]) -> bool:
    """Whether a passage is one of the gold documents, or a part of one."""
    return passage.document in golden or passage.id in golden


def plain_query(query: str) -> str:
    """A query without what does not make it another one: case and white space."""
    return " ".join(query.casefold().split())


def _found(
    passage: Passage,
    rank: int,
    gold: bool,
    new: bool,
    later: Sequence[tuple[int, _Prompt]],
    only_gold: bool,
    otherwise: Fate,
) -> FoundPassage:
    whole: list[int] = []
    cut: list[int] = []
    if passage.text.strip() and (gold or not only_gold):
        flat = _flat(passage.text)
        for at, prompt in later:
            held = prompt.holds(passage.text, flat)
            (whole if held == "seen" else cut if held == "cut" else []).append(at)
    return FoundPassage(
        passage=passage,
        rank=rank,
        gold=gold,
        new=new,
        fate="seen" if whole else "cut" if cut else otherwise,
        prompts=tuple(sorted((*whole, *cut))),
        cut_in=tuple(cut),
    )


class _Prompt:
    """What a model call was asked. A passage may stand in it as it is, with its white space changed, or escaped inside
    the JSON of a tool's answer."""

    def __init__(self, call: TracedCall) -> None:
        self._asked = call.asked

    @cached_property
    def text(self) -> str:
        asked = self._asked
        return "\n".join([*(message.content for message in asked.messages), asked.prefix]) if asked else ""

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The text with single spaces: as it is and, where JSON may stand in it, as that is read."""
        flat = _flat(self.text)
        if "\\" not in flat:
            return (flat,)
        read = _ESCAPED.sub(_letter, self.text)
        return flat, _flat(read.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    def holds(self, text: str, flat: str) -> Fate:
        """Whether a passage's text stands here whole, only its beginning, or not at all; `flat` is it with single
        spaces."""
        if text in self.text or any(flat in form for form in self.forms):  # prompts are long: as it is first
            return "seen"
        return "cut" if any(flat[:_BEGINNING] in form for form in self.forms) else "not seen"


def _letter(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[2], found[2])


def _flat(text: str) -> str:
    return " ".join(text.split())
