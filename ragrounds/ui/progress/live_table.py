"""Attempts in flight as a table of text."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ragrounds.evals.engine.in_flight import LiveAttempt
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.progress.lines import doing_words
from ragrounds.ui.text import dollars, duration, number_of, tokens


def live_table(found: Sequence[LiveAttempt], now: float | None = None) -> TextTable:
    """A line for each attempt in flight, those that take longest first.

    Args:
        found: the attempts.
        now: seconds since the epoch; ``None``: this moment.
    """
    at = time.time() if now is None else now
    columns = (
        words("run", whole=True),
        words("question", lambda one: one.question_id + (f"#{one.epoch}" if one.epoch else ""), whole=True),
        Column("time", lambda one: duration(max(0.0, at - one.at))),
        words("node"),
        words("waits for", lambda one: doing_words(one, at), text=str),
        Column("calls"),
        Column("tokens", text=tokens),
        Column("uncached", "cost_uncached", dollars),
    )
    title = f"{number_of(len(found), 'attempt')} in flight"
    return table_of("live", sorted(found, key=lambda one: one.at), columns, title=title)
