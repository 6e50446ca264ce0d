"""The columns of a comparison that describe a run and no scorer: in tables of text, in CSV and in frames.

A figure of :class:`ragrounds.evals.compare.comparison.RunTotals` is shown everywhere once it has a line here.
"""

from __future__ import annotations

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
        "cost_paid", text=dollars, heading="paid", csv="cost_paid", type="real", unit="US dollars",
        least_where="unanswered", words="What was really paid: cached calls cost nothing.",
    ),
    Column(
        "cost_uncached", text=dollars, heading="full price", csv="cost_uncached", type="real", unit="US dollars",
        least_where="unanswered",
        words="What the same costs without cached calls.",
    ),
    Column(
        "cost_judging", text=dollars, heading="judging", where="judging_calls", csv="cost_judging", type="real",
        words="What was paid for judges of its answers; it is in no other column.", unit="US dollars",
    ),
    Column(
        "seconds", text=duration, heading="time", csv="seconds a question", type="real",
        words="Mean time of an attempt.", unit="seconds",
    ),
)  # fmt: skip
"""Columns in the order of tables of text. In frames a new column is added at the end."""
