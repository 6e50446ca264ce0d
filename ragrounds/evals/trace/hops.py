"""Hops of an attempt: the query and the results of each search, and whether later prompts contain them.

A hop is a search that gave a result or failed, in the order of the calls. Whether a passage was seen is derived from
the prompts that were recorded after the search: a passage is in a prompt if a message contains its text, whole or, cut
to the model's window, its beginning. Gold is identified by document or passage id.

A user's system reports its own searches at the end of the attempt, if the searches themselves could not be recorded.
Their position among the calls is then unknown: every prompt of the attempt is searched, and a passage that is in none
is *not known*.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct

from ragrounds.base.records import Attempt, Gold, Noted, Passage
from ragrounds.evals.trace.traces import TracedCall

Fate = Literal["seen", "cut", "not seen", "not known"]
"""Fate of a passage: whole in a later prompt, only its beginning in one, in none, or not known."""
FATES: tuple[Fate, ...] = ("seen", "cut", "not seen", "not known")
"""All fates, the best first."""
SYSTEMS_OWN = "the system's own"
"""The corpus of a search inside a foreign system's process."""
PROVIDERS_OWN = "the provider's own"
"""Corpus of a search that a provider made inside a model call: that call saw the results, and no prompt contains them.
"""


class FoundPassage(Struct, frozen=True, kw_only=True):
    """Passage as one search found it."""

    passage: Passage
    rank: int
    """Rank among the search's results, from 1."""
    gold: bool
    new: bool
    """True if no earlier search of the attempt found it."""
    fate: Fate
    prompts: tuple[int, ...] = ()
    """Indices of the later model calls whose prompts contain the passage, among the calls of the attempt."""
    cut_in: tuple[int, ...] = ()
    """Elements of `prompts` that contain only its beginning."""


class Hop(Struct, frozen=True, kw_only=True):
    """One search of an attempt."""

    number: int
    """Number of the hop, from 1."""
    call: int
    """Index among the calls of the attempt, from 0."""
    traced: TracedCall
    query: str
    """Query; empty if it is not in the journal."""
    repeats: int | None
    """Number of the earlier hop with the same query, ignoring case and white space; ``None`` if there was none."""
    found: tuple[FoundPassage, ...]
    error: str
    untimed: bool = False
    """True if a system reported the search at its end: the calls that came after it are then not known."""

    @property
    def gold_ranks(self) -> tuple[int, ...]:
        """Return the ranks of gold passages, best first."""
        return tuple(passage.rank for passage in self.found if passage.gold)

    @property
    def new(self) -> int:
        """Return the number of passages that no earlier search of the attempt found."""
        return sum(passage.new for passage in self.found)


NOT_HEARD = "no_search_heard"
NOT_HEARD_WORDS = "no search was recorded, and searches inside its own process may be missing"
"""Note of an attempt of a foreign system that reported no search and has none among its recorded calls."""
_BEGINNING = 80
"""Number of characters by which a truncated passage is recognized."""
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
"""Escaped letter in JSON."""
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


def searches_unknown(attempt: Attempt, calls: Sequence[TracedCall]) -> str:
    """Explain why it is not known whether an attempt without a recorded search made one; empty if its calls show that
    it did not.

    Args:
        attempt: without hops.
        calls: all its recorded calls.
    """
    messages = [message for call in calls if call.asked is not None for message in call.asked.messages]
    tool_names = [tool.name for call in calls if call.reply for tool in call.reply.calls]
    tool_names += [tool.name for message in messages for tool in message.calls]
    tool_names += [call.call.actor for call in calls if call.call.kind == "tool"]
    if tool_names or any(message.role == "tool" for message in messages):
        names = f" {', '.join(list(dict.fromkeys(tool_names))[:3])}" if tool_names else ""
        return f"it called tools{names}; whether they searched is not known"
    if any(isinstance(event, Noted) and event.what == NOT_HEARD for event in attempt.events):
        return f"{NOT_HEARD_WORDS}: whether it searched is not known"
    if not attempt.replayable or (not messages and not (calls and all(call.call.error for call in calls))):
        return "calls of it are not recorded: whether it searched is not known"
    return ""


def hops_of(calls: Sequence[TracedCall], gold: Gold, only_gold: bool = False) -> tuple[Hop, ...]:
    """Return the hops among all calls of an attempt.

    Args:
        calls: in their order.
        gold: of the question.
        only_gold: search the prompts for gold passages alone; the fate of all other passages is then meaningless.
    """
    prompts = [(index, _Prompt(call)) for index, call in enumerate(calls) if call.asked is not None]
    replied = any(call.call.kind == "model" and not call.call.error for call in calls)
    golden, found_ids, first_asked = set(gold.documents), set[str](), dict[str, int]()
    hops: list[Hop] = []
    for index, call in enumerate(calls):
        if call.call.kind != "search":
            continue
        number, query = len(hops) + 1, call.searched.query if call.searched else ""
        corpus = call.searched.corpus if call.searched else ""
        # A system reported the search at its end: outside every node, and after every model call.
        untimed = (
            corpus == SYSTEMS_OWN
            and not call.call.node
            and not any(later_call.call.kind == "model" for later_call in calls[index + 1 :])
        )
        later_prompts = [(prompt_index, prompt) for prompt_index, prompt in prompts if untimed or prompt_index > index]
        unknown = untimed or corpus == PROVIDERS_OWN or (replied and not prompts)
        passages: list[FoundPassage] = []
        for rank, passage in enumerate(call.passages, 1):
            gold_passage = is_gold(passage, golden)
            seen_whole: list[int] = []
            cut: list[int] = []
            if passage.text.strip() and (gold_passage or not only_gold):
                flat = _flat(passage.text)
                for prompt_index, prompt in later_prompts:
                    fate = prompt.holds(passage.text, flat)
                    (seen_whole if fate == "seen" else cut if fate == "cut" else []).append(prompt_index)
            passages.append(
                FoundPassage(
                    passage=passage,
                    rank=rank,
                    gold=gold_passage,
                    new=passage.id not in found_ids,
                    fate="seen" if seen_whole else "cut" if cut else "not known" if unknown else "not seen",
                    prompts=tuple(sorted((*seen_whole, *cut))),
                    cut_in=tuple(cut),
                )
            )
        found_ids.update(passage.id for passage in call.passages)
        plain_text = plain_query(query)
        hops.append(
            Hop(
                number=number,
                call=index,
                traced=call,
                query=query,
                repeats=first_asked.get(plain_text) if plain_text else None,
                found=tuple(passages),
                error=call.call.error,
                untimed=untimed,
            )
        )
        first_asked.setdefault(plain_text, number)
    return tuple(hops)


def is_gold(passage: Passage, golden: set[str]) -> bool:
    """Return True if a passage is one of the gold documents, or a part of one."""
    return passage.document in golden or passage.id in golden


def gold_names(hops: Iterable[Hop], *fates: Fate) -> set[str]:
    """Return the document ids and passage ids of the gold passages that were found; with `fates`, only of those
    with one of these fates.
    """
    gold = (passage for hop in hops for passage in hop.found if passage.gold and passage.fate in (fates or FATES))
    return {name for passage in gold for name in (passage.passage.document, passage.passage.id)}


def plain_query(query: str) -> str:
    """Return a query without differences in case and white space."""
    return " ".join(query.casefold().split())


class _Prompt:
    """Prompt of a model call. A passage may be in it verbatim, with changed white space, or escaped inside the JSON of
    a tool's answer.
    """

    def __init__(self, call: TracedCall) -> None:
        self._request = call.asked

    @cached_property
    def text(self) -> str:
        request = self._request
        return "\n".join([*(message.content for message in request.messages), request.prefix]) if request else ""

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """Return the text with single spaces: verbatim and, if it may contain JSON, also with escapes decoded."""
        flat = _flat(self.text)
        if "\\" not in flat:
            return (flat,)
        read = _ESCAPED.sub(
            lambda match: chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2]), self.text
        )
        return flat, _flat(read.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    def holds(self, text: str, flat: str) -> Fate:
        """Return whether the prompt contains a passage's text whole, only its beginning, or not at all.

        `flat` is the text with single spaces.
        """
        # Prompts are long, so the verbatim test comes first.
        if text in self.text or any(flat in form for form in self.forms):
            return "seen"
        return "cut" if any(flat[:_BEGINNING] in form for form in self.forms) else "not seen"


def _flat(text: str) -> str:
    return " ".join(text.split())
