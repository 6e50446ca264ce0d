"""Words of the filter language: the meaning and an example of each, and the notation of figures.

This is the only list: the parser, the help, the completion and the documentation read it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from msgspec import Struct

from ragrounds.base.records import COUNTED, OUTCOMES

FieldKind = Literal["flag", "number", "value", "text"]
Unit = Literal["", "dollars", "seconds", "tokens", "share"]


class FilterField(Struct, frozen=True):
    """Word of the filter language."""

    kind: FieldKind
    """Kind of the field: a ``flag`` has no value, a ``number`` is compared, a ``value`` is a name, a ``text`` is
    searched for.
    """
    name: str
    about: str
    example: str
    unit: Unit = ""
    counts: bool = False
    """True if the number without a comparison means above 0: ``faults``."""
    values: tuple[str, ...] = ()
    """All possible values, if they are fixed."""


def _flag(name: str, about: str) -> FilterField:
    return FilterField("flag", name, about, example=name)


_number, _value, _text = partial(FilterField, "number"), partial(FilterField, "value"), partial(FilterField, "text")
STATUSES = (*OUTCOMES, "completed")
"""Values of `status:`: the outcomes, and ``completed`` for every attempt that ended normally."""

FIELDS: tuple[FilterField, ...] = (
    _flag("right", "full marks"),
    _flag("wrong", "scored, and below full marks"),
    _flag("partly", "scored between 0 and full marks"),
    _flag("scored", "has a score"),
    _flag("unscored", "has no score"),
    _flag("made", "an attempt was made"),
    _flag("troubled", "failed, capped, blocked, paused or empty"),
    *(_flag(name, meaning) for name, meaning in OUTCOMES.items()),
    _flag("marked", "has a reader's mark"),
    _value("status", "how it ended", "status:failed", values=STATUSES),
    _value("agent", "the agent's text, or a part of it", "agent:direct"),
    _value("run", "the run's id, or a part of it", "run:direct-3f2a"),
    _value("benchmark", "the benchmark's name, or a part of it", "benchmark:medqa"),
    _value("subject", "the question's group, or a part of it", "subject:anatomy"),
    _value("question", "the question's id, or what follows its last slash; * matches anything", "question:c01"),
    _value("about", "letters in the question's id, text, options or subject", "about:aspirin"),
    _value("prediction", "what the scorer read as the answer", "prediction:B"),
    _value("reason", "letters in why it did not complete", "reason:timeout"),
    _value("note", "a kind of note that its run left", "note:trace_full"),
    _value("mark", "a reader's mark", "mark:star"),
    _value("author", "who marked it or wrote a note", "author:ada"),
    _value("noted", "letters in a reader's note; alone: there is one", 'noted:"look again"'),
    _number("score", "of the scorer that is shown", "score<0.5", "share"),
    _number("cost", "dollars without any cache", "cost>0.01", "dollars"),
    _number("paid", "dollars really paid", "paid>0", "dollars"),
    _number("time", "how long it took", "time>10s", "seconds"),
    _number("tokens", "in and out", "tokens>4k", "tokens"),
    _number("input", "tokens in", "input>4000", "tokens"),
    _number("output", "tokens out", "output<50", "tokens"),
    _number("steps", "nodes that were entered", "steps>8"),
    _number("hops", "searches that gave a result", "hops>3", counts=True),
    _number("repeated", "searches for what was searched before", "repeated>0", counts=True),
    _number("failed_calls", "calls that gave no reply", "failed_calls>0", counts=True),
    _number("failed_searches", "searches that failed", "failed_searches>0", counts=True),
    _number("faults", "tries that gave no reply", "faults>0", counts=True),
    _number("gold_known", "gold documents of the question", "gold_known>1"),
    _number("gold_found", "of these, found by a search", "gold_found>=2"),
    _number("gold_seen", "of these, in a prompt, whole or its beginning", "gold_seen<2"),
    _number("gold_cut", "of these, no more than its beginning in any prompt", "gold cut"),
    _number("gold_missed", "gold documents that no search found", "gold_missed>0"),
    _number("gold_unseen", "gold documents in no prompt", "gold_unseen=0"),
    _number("gold_rank", "best rank of one", "gold rank<=5"),
    _number("gold_hop", "the search that found one first", "gold hop>1"),
    _number("epoch", "which time the question was asked, from 0", "epoch:1"),
    *(_number(name, about[0].lower() + about[1:], f"{name}>0", counts=True) for name, about in COUNTED.items()),
    _text("text", "full text of anything the attempt asked, found or was answered", 'text:"upper limb"'),
    _text("query", "full text of its queries", "query:edema"),
    _text("passage", "full text of the passages that it found", "passage:edem*"),
    _text("reply", "full text of models' replies", 'reply:"I think"'),
    _text("answer", "full text of the final answer", "answer:unclear"),
    _text("tool", "full text of what tools were asked and gave", "tool:calculator"),
    _text("prompt", "full text of the prompts of systems that are not ours", "prompt:summarize"),
    _text("error", "full text of errors, and of why it did not complete; alone: troubled", 'error:"timed out"'),
)
BY_NAME: dict[str, FilterField] = {field.name: field for field in FIELDS}
TEXTS = {"error": "reason"}
"""Text fields to which a search for words gives another name."""
ALIASES = {"outcome": "status", "errors": "troubled", "correct": "right", "incorrect": "wrong"}
"""Synonyms of fields."""

MEASURES: dict[str, FilterField] = {
    "accuracy": BY_NAME["score"], "score": BY_NAME["score"], "cost": BY_NAME["cost"], "cost_paid": BY_NAME["paid"],
    "tokens": BY_NAME["tokens"], "model_calls": BY_NAME["model_calls"], "seconds": BY_NAME["time"],
    **{name: BY_NAME[name] for name in OUTCOMES if name not in ("answered", "not_run")},
}  # fmt: skip
"""Measures of claims, and the field that each is the mean of: of a flag it is the share of attempts with the flag."""
BOUNDED_MEASURES = tuple(name for name, field in MEASURES.items() if field.kind == "flag" or field.unit == "share")
"""Measures between 0 and 1. The others have no upper bound, so they have no confidence sequence by betting."""

GOLD = frozenset(field.name for field in FIELDS if field.name.startswith("gold_"))
"""Fields that are unknown if the question's gold documents are not known."""
FACTS = GOLD | frozenset("steps hops repeated failed_calls failed_searches faults note".split())
"""Fields whose values are in an attempt's facts."""

GOLD_PHRASES: tuple[tuple[str, str, str], ...] = (
    ("gold found", "gold_found>0", "a search found a gold document"),
    ("gold not found", "not gold_found>0", "no search found one"),
    ("gold all found", "gold_missed=0", "every gold document was found"),
    ("gold seen", "gold_seen>0", "a gold document was in a prompt, whole or its beginning"),
    ("gold not seen", "not gold_seen>0", "no gold document was in a prompt"),
    ("gold all seen", "gold_unseen=0", "every gold document was in a prompt"),
    ("gold cut", "gold_cut>0", "only the beginning of a gold document was in any prompt"),
    ("gold known", "gold_known!=unknown", "the question names gold documents"),
    ("gold not known", "gold_known=unknown", "the question names none"),
    ("gold rank<=", "", "the best rank of one: gold rank<=5"),
    ("gold hop=", "", "the search that found one first: gold hop=1"),
)
"""Phrases about gold, the equivalent expression by fields, and their meaning."""
EXAMPLES: tuple[tuple[str, str], ...] = (
    ("wrong and hops>3 and gold not seen", "wrong, more than 3 searches, no gold document in a prompt"),
    ("wrong and gold found and gold not seen", "wrong: gold was found and never shown to the model"),
    ("wrong and gold cut", "wrong: of gold only the beginning was shown to the model"),
    ("wrong and gold seen", "wrong although the model had a gold document before it"),
    ("failed or capped", "ended by an error or a cap"),
    ("gold rank<=5 and wrong", "gold among the first five of a search, and wrong"),
    ("repeated>0", "searched again for what was searched before"),
    ("faults or failed_searches", "some try or search failed"),
    ("agent:direct and wrong", "one agent's mistakes"),
    ("subject:anatomy not right", "one subject, all that is not right"),
    ("time>10s or cost>0.01", "slow or expensive"),
    ('"upper limb"', "these words, one after the other, anywhere in the attempt"),
    ("query:edem* passage:lymph", "a word's beginning in a query, a word in a passage"),
    ("marked or noted", "what readers marked or wrote about"),
    ("note:trace_full", "a kind of note that the run left"),
)
"""Example expressions, and the attempts that each lists."""

_SIZES: dict[Unit, dict[str, float]] = {
    "": {"": 1},
    "dollars": {"": 1, "$": 1},
    "seconds": {"": 1, "s": 1, "ms": 0.001, "m": 60, "min": 60, "h": 3600},
    "tokens": {"": 1, "k": 1000, "m": 1_000_000},
    "share": {"": 1, "%": 0.01},
}
_FIGURE = re.compile(r"(\$?)(-?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-z%$]*)", re.ASCII)
HOW_WRITTEN: dict[Unit, str] = {
    "": "a number such as 3",
    "dollars": "dollars such as 0.01",
    "seconds": "a time such as 500ms, 10s or 2min",
    "tokens": "a number such as 4000 or 4k",
    "share": "a score such as 0.5 or 50%",
}
"""How a figure of each unit is typed."""


def read_figure(text: str, unit: Unit) -> float | None:
    """Parse a figure as it is typed, in seconds, dollars or tokens; ``None`` if it is no figure of this unit."""
    match = _FIGURE.fullmatch(text.casefold())
    if match is None:
        return None
    prefix, number, suffix = match.groups()
    size = _SIZES[unit].get(prefix or suffix)
    return None if size is None or (prefix and suffix) else float(number) * size
