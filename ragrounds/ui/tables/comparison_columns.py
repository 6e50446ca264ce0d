"""Columns that describe a run without its scores: in tables of text, on screens, in CSV and in frames.

A figure of :class:`ragrounds.evals.compare.comparison.AttemptSums` is in the tables of `compare --full`, in CSV and in
frames once it has a line here; with `listed` also on the first screen of `compare` (Table 1 of a report), in `runs ls`,
on the home screen and in leaderboards. Two kinds are exceptions: the first screen and the home screen show dollars by
question in columns of their own, and leaderboards show no seconds, since machines differ.
"""

from __future__ import annotations

from msgspec.structs import replace

from ragrounds.ui.columns import Column
from ragrounds.ui.text import dollars, duration, tokens

TOTALS = (
    Column("model_calls", heading="model calls", csv="model calls", type="whole", words="Calls of models."),
    Column("searches", where="searches", csv="searches", type="whole", words="Searches."),
    Column(
        "tool_calls", where="tool_calls", heading="tools", csv="tool calls", type="whole",
        words="Uses of tools that do not search.",
    ),
    Column("unrecorded", where="unrecorded", heading="not recorded"),
    Column(
        "unanswered", where="unanswered", heading="no answer", csv="requests without an answer", type="whole",
        words="Requests to models that got no answer that could be read. A provider may bill them: costs are at least.",
    ),
    Column(
        "input_tokens", "usage.input", tokens, heading="in",
        csv="input tokens", type="whole", words="Tokens given to models.", unit="tokens",
    ),
    Column(
        "output_tokens", "usage.output", tokens, heading="out",
        csv="output tokens", type="whole", words="Tokens that models wrote.", unit="tokens",
    ),
    Column(
        "cost_paid", text=dollars, heading="paid", csv="cost_paid", type="real", unit="US dollars", listed=3,
        least_where="unanswered", words="What was really paid: cached calls cost nothing.",
    ),
    Column(
        "cost_uncached", text=dollars, heading="full price", csv="cost_uncached", type="real", unit="US dollars",
        listed=8, least_where="unanswered",
        words="What the same costs without cached calls.",
    ),
    Column(
        "cost_judging", text=dollars, heading="judging", where="judging_calls", csv="cost_judging", type="real",
        listed=7, words="What was paid for judges of its answers; it is in no other column.", unit="US dollars",
    ),
    Column(
        "seconds", text=duration, heading="time", csv="seconds a question", type="real", listed=9,
        words="Mean time of an attempt.", unit="seconds",
    ),
    Column(
        "waited", text=duration, where="waited", heading="waiting", csv="seconds of waiting a question", type="real",
        words="Mean time of an attempt in which its model calls waited for servers that report when they worked.",
        unit="seconds",
    ),
)  # fmt: skip
"""Columns in the order of tables of text. In frames a new column is added at the end."""
LISTED = tuple(replace(column, spare=column.listed) for column in TOTALS if column.listed)
"""Columns of lists of runs."""
