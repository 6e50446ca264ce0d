"""A model call in words, and a search in signs: what a line of a terminal and a row of a page show of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.base.contracts import Request
from ragrounds.base.records import Attempt, Reply
from ragrounds.evals.compare.comparison import RunTotals
from ragrounds.evals.trace.hops import FATES, Fate, Hop, searches_unknown
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.ui.text import number_of


def made_words(called: Attempt | RunTotals) -> str:
    """What was called, each kind by itself: ``2 model calls, 3 searches``."""
    others = ((called.searches, "search"), (called.tool_calls, "tool use"))
    return ", ".join([number_of(called.model_calls, "model call"), *(number_of(*one) for one in others if one[0])])


def search_words(attempt: Attempt, calls: Sequence[TracedCall]) -> str:
    """What is said of an attempt without hops, in a word or two."""
    return "not known" if searches_unknown(attempt, calls) else "no search"


def terms_of(asked: Request) -> str:
    """What a request asks for beside its messages: ``at most 50 tokens; temperature 0.2``; empty: nothing."""
    terms = [f"at most {asked.max_tokens} tokens"] if asked.max_tokens else []
    terms += [f"stops at {asked.stop!r}"] if asked.stop else []
    terms += [f"occurrence {asked.occurrence}"] if asked.occurrence else []
    terms += ["provider's web search"] if asked.web_search else []
    terms += [f"tools: {', '.join(tool.name for tool in asked.tools)}"] if asked.tools else []
    terms += [f"tool choice: {asked.tool_choice}"] if asked.tool_choice else []
    terms += ["one tool at a time"] if asked.parallel_tool_calls is False else []
    terms += [f"temperature {asked.temperature:g}"] if asked.temperature is not None else []
    terms += [f"seed {asked.seed}"] if asked.seed is not None else []
    if form := asked.response_format:
        schema = form.get("json_schema")
        named = schema.get("name") or "JSON schema" if isinstance(schema, dict) else form.get("type")
        terms.append(f"a reply of the form {named}")
    if asked.logprobs is not None:
        terms.append("log probabilities" + (f" with the {asked.logprobs} likeliest tokens" if asked.logprobs else ""))
    return "; ".join(terms)


def probability_of(reply: Reply) -> str:
    """The log probability of a reply's text, and of its least likely token; empty: it brought none."""
    if not reply.logprobs:
        return ""
    least = min(reply.logprobs, key=lambda one: one.logprob)
    others = ", ".join(f"{token!r} {number:.2f}" for token, number in least.top if token != least.token)
    total = sum(one.logprob for one in reply.logprobs)
    tokens = f"{len(reply.logprobs):,} token{'' if len(reply.logprobs) == 1 else 's'}"
    beside = f" (beside {others})" if others else ""
    return f"log probability of its {tokens}: {total:.2f}; least likely {least.token!r} {least.logprob:.2f}{beside}"


FATE_SIGNS: dict[Fate, str] = {"seen": "●", "cut": "◐", "not seen": "○", "not known": "?"}
_SHOWN_QUERY = 400
"""Characters of a query that are kept."""


class HopSigns(Struct, frozen=True, kw_only=True):
    """What a line shows of a hop."""

    query: str
    found: int
    gold_rank: int | None
    """The best rank of a gold passage; ``None``: it found none."""
    fate: Fate
    """The best of its gold passages; says nothing where it found none."""
    new: int
    repeats: int | None
    failed: bool
    place: int
    """Of its call among the calls of the attempt."""

    @property
    def signs(self) -> str:
        """The hop in signs: ``★3●`` gold at rank 3 and seen, ``◐`` cut, ``○`` in no prompt, ``?`` not known,
        ``·`` no gold, ``↻`` repeated, ``!`` failed."""
        if self.failed:
            return "!"
        again = "↻" if self.repeats is not None else ""
        gold = "·" if self.gold_rank is None else f"★{self.gold_rank}{FATE_SIGNS[self.fate]}"
        return again + gold

    @property
    def style(self) -> str:
        """The style of its signs."""
        if self.failed:
            return "trouble"
        return "dim" if self.gold_rank is None else "gold" if self.fate == "seen" else "key"


def hop_signs(hop: Hop) -> HopSigns:
    """What a line shows of a hop; it keeps no passage and no prompt."""
    gold = [one for one in hop.found if one.gold]
    return HopSigns(
        query=hop.query[:_SHOWN_QUERY],
        found=len(hop.found),
        gold_rank=gold[0].rank if gold else None,
        fate=min((one.fate for one in gold), key=FATES.index, default="not seen"),
        new=hop.new,
        repeats=hop.repeats,
        failed=bool(hop.error),
        place=hop.call,
    )
