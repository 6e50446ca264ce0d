"""Attempts in flight in the viewer: their rows, with the node and the call that each is at.

They are read once a second, on a thread of its own, from what the processes that make them write; nothing of it is in
the store. An attempt that has ended and is not written yet stays as it was seen last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from ragrounds.evals.engine.in_flight import LiveAttempt, live_attempts
from ragrounds.evals.store.summaries import AttemptSummary, Pages
from ragrounds.ui.progress.lines import doing_words
from ragrounds.ui.text import duration, one_line
from ragrounds.ui.trace.attempt_list import attempt_cells
from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.loaded import LoadedAttempt

RUNNING = "▶"
"""The sign of an attempt in flight."""
_WRITTEN = 5.0
"""Seconds that an attempt which is not in flight any more is waited for in the store."""
_EARLIER = 1.0
"""Seconds by which the clock of the store and that of the attempt may differ."""

Key = tuple[str, str, int]
"""Run id, question id, epoch."""


class LiveRows:
    """What is in flight among the rows of some pages.

    Args:
        pages: the rows.
        source: gives the attempts in flight; ``None``: all of processes that make attempts in this store's home.
        clock: gives seconds since the epoch.
    """

    def __init__(
        self,
        pages: Pages,
        source: Callable[[], tuple[LiveAttempt, ...]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pages, self._clock = pages, clock
        self._source = source or (lambda: live_attempts(pages.store.home))
        self._runs = {run.id for run in pages.runs}
        self._flying: dict[Key, LiveAttempt] = {}
        self._ended: dict[Key, tuple[LiveAttempt, float]] = {}
        """Attempts that were in flight at an earlier look, and until when they are waited for."""

    def __len__(self) -> int:
        return len(self._flying)

    def look(self) -> bool:
        """Ask what is in flight: for a thread, as it may take a while. Returns whether there is anything to show, or
        was at the last look."""
        now, before = self._clock(), self._flying
        told = [one for one in self._source() if one.run in self._runs]
        flying = {(one.run, one.question_id, one.epoch): one for one in told}
        ended = {key: (one, now + _WRITTEN) for key, one in before.items() if key not in flying}
        kept = {key: since for key, since in self._ended.items() if since[1] > now and key not in flying}
        some = bool(flying or before or self._ended)
        self._flying, self._ended = flying, {**kept, **ended}
        return some

    def of(self, summary: AttemptSummary) -> LiveAttempt | None:
        """The attempt in flight at this row; ``None``: there is none, or it is in the store by now."""
        live = self._flying.get(_key(summary)) or self._ended.get(_key(summary), (None, 0.0))[0]
        if live is None or summary.outcome == "not_run":
            return live
        # A row that has an attempt already shows another one in flight where it is made again.
        return live if (summary.at or 0.0) < live.at - _EARLIER else None

    def loaded(self, summary: AttemptSummary) -> LoadedAttempt:
        """The attempt of a row: as it is stored, or how far the one in flight is."""
        live = self.of(summary)
        if live is None:
            return LoadedAttempt(self._pages, summary)
        return LoadedAttempt.live(self._pages, summary, live, self._clock())

    def cells(
        self,
        summary: AttemptSummary | None,
        width: int,
        agents: Mapping[str, str],
        signs: str | None = None,
        begin: str = "",
    ) -> Cells:
        """The cells of a row: those of :func:`ragrounds.ui.trace.attempt_list.attempt_cells`, and for an attempt in
        flight its node and what that waits for, with its figures so far."""
        live = self.of(summary) if summary is not None else None
        if summary is None or live is None:
            return attempt_cells(summary, width, agents, signs, begin)
        now = self._clock()
        words = live_words(live, now) if _key(summary) in self._flying else "is being written"
        shown = replace(
            summary,
            outcome="answered",
            value=None,
            calls=live.calls,
            tokens=live.tokens,
            cost_uncached=live.cost_uncached,
            seconds=max(0.0, now - live.at),
            question=replace(summary.question, text=words),
        )
        cells = attempt_cells(shown, width, agents, signs, begin)
        # In place of a score the time so far, in its largest unit.
        took = " ".join(duration(max(0.0, now - live.at)).split()[:2])
        return [(f"{RUNNING} {fit(took, 5, right=True)} ", "new"), *cells[1:]]


def _key(summary: AttemptSummary) -> Key:
    return summary.run.id, summary.question.id, summary.epoch


def live_words(live: LiveAttempt, now: float) -> str:
    """At which node an attempt is, and what that waits for."""
    if not live.node:
        return "begins"
    said = doing_words(live, now)
    return f"{one_line(live.node, 40)}{': ' if said else ''}{said}"
