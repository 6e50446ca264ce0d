"""Attempts in flight as a table of text."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ragrounds.evals.engine.in_flight import LiveAttempt
from ragrounds.ui.progress.lines import doing_words
from ragrounds.ui.tables import Column, TextTable
from ragrounds.ui.text import dollars, duration, number_of, safe, tokens


def live_table(found: Sequence[LiveAttempt], now: float | None = None) -> TextTable:
    """A line for each attempt in flight, those that take longest first.

    Args:
        found: the attempts.
        now: seconds since the epoch; ``None``: this moment.
    """
    at = time.time() if now is None else now
    return TextTable(
        key="live",
        title=f"{number_of(len(found), 'attempt')} in flight",
        columns=(
            Column("run", right=False, whole=True),
            Column("question", right=False, whole=True),
            Column("time"),
            Column("node", right=False),
            Column("waits for", right=False),
            Column("calls"),
            Column("tokens"),
            Column("uncached"),
        ),
        rows=tuple(
            (
                safe(one.run),
                safe(one.question_id) + (f"#{one.epoch}" if one.epoch else ""),
                duration(max(0.0, at - one.at)),
                safe(one.node),
                doing_words(one, at),
                f"{one.calls:,}",
                tokens(one.tokens),
                dollars(one.cost_uncached),
            )
            for one in sorted(found, key=lambda one: one.at)
        ),
    )
