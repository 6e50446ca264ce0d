"""Model calls in words and searches in signs, for lines of a terminal and rows of a page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.base.contracts import Request
from ragrounds.base.records import Attempt, Reply
from ragrounds.evals.compare.comparison import RunTotals
from ragrounds.evals.trace.hops import FATES, Fate, Hop, searches_unknown
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.ui.text import number_of

_FAULTS = {
    "rate_limit": "refused for too many requests",
    "server": "the server failed",
    "timeout": "timeout",
    "unreachable": "no connection",
    "connection": "connection cut",
    "malformed": "a reply that cannot be read",
    "context_too_long": "prompt too long",
    "blocked": "refused by the content filter",
    "OpenAIError": "an error of the OpenAI client",
}
_MESSAGE = re.compile(r"""['"]message['"]: *(['"])(.+?)(?<!\\)\1""")
_WORD_STARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def fault_word(kind: str) -> str:
    """Return the kind of a fault in words: a known kind, or an error's class (``ValueError``: value error)."""
    return _FAULTS.get(kind) or _WORD_STARTS.sub(" ", kind.removeprefix("OpenAI")).replace("_", " ").lower()


def plain_reason(reason: str) -> tuple[str, str]:
    """Split the reason of a failure into its kind in words, empty if it has none, and its message without JSON."""
    kind, _, message = reason.partition(": ")
    if not kind.isidentifier():
        kind, message = "", reason
    quoted = _MESSAGE.search(message)
    return fault_word(kind), quoted[2] if quoted else message


def made_words(called: Attempt | RunTotals) -> str:
    """Return the number of model calls, searches and tool uses as text: ``2 model calls, 3 searches``."""
    others = (called.searches, "search"), (called.tool_calls, "tool use")
    return ", ".join(
        [number_of(called.model_calls, "model call"), *(number_of(*count) for count in others if count[0])]
    )


def search_words(attempt: Attempt, calls: Sequence[TracedCall]) -> str:
    """Return a short label for an attempt without hops: no search, or not known."""
    return "not known" if searches_unknown(attempt, calls) else "no search"


def terms_of(request: Request) -> str:
    """Return the parameters of a request other than its messages: ``at most 50 tokens; temperature 0.2``; empty if
    none.
    """
    terms = [f"at most {request.max_tokens} tokens"] if request.max_tokens else []
    terms += [f"stops at {request.stop!r}"] if request.stop else []
    terms += [f"occurrence {request.occurrence}"] if request.occurrence else []
    terms += ["provider's web search"] if request.web_search else []
    terms += [f"tools: {', '.join(tool.name for tool in request.tools)}"] if request.tools else []
    terms += [f"tool choice: {request.tool_choice}"] if request.tool_choice else []
    terms += ["one tool at a time"] if request.parallel_tool_calls is False else []
    terms += [f"temperature {request.temperature:g}"] if request.temperature is not None else []
    terms += [f"seed {request.seed}"] if request.seed is not None else []
    if form := request.response_format:
        schema = form.get("json_schema")
        schema_name = schema.get("name") or "JSON schema" if isinstance(schema, dict) else form.get("type")
        terms.append(f"a reply of the form {schema_name}")
    if request.logprobs is not None:
        terms.append(
            "log probabilities" + (f" with the {request.logprobs} likeliest tokens" if request.logprobs else "")
        )
    return "; ".join(terms)


def probability_of(reply: Reply) -> str:
    """Return the log probability of a reply's text, and of its least likely token; empty if the reply has none."""
    if not reply.logprobs:
        return ""
    rarest = min(reply.logprobs, key=lambda token: token.logprob)
    alternatives = ", ".join(f"{token!r} {number:.2f}" for token, number in rarest.top if token != rarest.token)
    total = sum(token.logprob for token in reply.logprobs)
    suffix = f" (next to {alternatives})" if alternatives else ""
    return (
        f"log probability of its {number_of(len(reply.logprobs), 'token')}: {total:.2f}; "
        f"least likely {rarest.token!r} {rarest.logprob:.2f}{suffix}"
    )


FATE_SIGNS: dict[Fate, str] = {"seen": "●", "cut": "◐", "not seen": "○", "not known": "?"}
_MAX_QUERY_LENGTH = 400
"""Maximum number of characters that are kept of a query."""


class HopSigns(Struct, frozen=True, kw_only=True):
    """Summary of a hop as a line shows it."""

    query: str
    passage_count: int
    gold_rank: int | None
    """Best rank of a gold passage; ``None`` if the hop found no gold passage."""
    fate: Fate
    """Best fate of the hop's gold passages; meaningless if it found none."""
    new: int
    repeats: int | None
    failed: bool
    call_number: int
    """Index of the hop's call among the calls of the attempt."""

    @property
    def signs(self) -> str:
        """Return the hop in signs: ``★3●`` gold at rank 3 and seen, ``◐`` cut, ``○`` in no prompt, ``?`` not known,
        ``·`` no gold, ``↻`` repeated, ``!`` failed.
        """
        if self.failed:
            return "!"
        repeat_sign = "↻" if self.repeats is not None else ""
        gold = "·" if self.gold_rank is None else f"★{self.gold_rank}{FATE_SIGNS[self.fate]}"
        return repeat_sign + gold

    @property
    def style(self) -> str:
        """Return the style of the hop's signs."""
        if self.failed:
            return "trouble"
        return "dim" if self.gold_rank is None else "gold" if self.fate == "seen" else "key"


def hop_signs(hop: Hop) -> HopSigns:
    """Return the summary of a hop, without passages and prompts."""
    gold = [passage for passage in hop.found if passage.gold]
    return HopSigns(
        query=hop.query[:_MAX_QUERY_LENGTH],
        passage_count=len(hop.found),
        gold_rank=gold[0].rank if gold else None,
        fate=min((passage.fate for passage in gold), key=FATES.index, default="not seen"),
        new=hop.new,
        repeats=hop.repeats,
        failed=bool(hop.error),
        call_number=hop.call,
    )
