"""What a run has come to so far: counts that any display can draw."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragrounds.evals.engine.strands import Finished, Strand
    from ragrounds.evals.store.store import Store

OUTCOMES = ("answered", "abstained", "refused", "unreadable", "blocked", "failed", "capped", "paused", "not_run")
"""How an attempt can count, in the order that tables show: a scorer's reading where the attempt was completed, its
status where it was not."""


def outcome(status: str, answer_status: str) -> str:
    """One word for an attempt: its status where that says more than the reading. ``empty`` in a completed attempt is
    an error that was recorded in place of a reply."""
    if status != "completed":
        return status
    return "failed" if answer_status == "empty" else answer_status


@dataclass
class RunTally:
    """One run's counts."""

    agent: str
    total: int
    """Attempts that the run has in all."""
    before: int = 0
    """Attempts that were done before this process began."""
    done: int = 0
    scorer: str = ""
    """The scorer that `value` is by: the first of the first question."""
    value: float = 0.0
    scored: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    cost_paid: float | None = 0.0
    tokens: int = 0

    @property
    def mean(self) -> float | None:
        """Mean score so far (of what this process did)."""
        return self.value / self.scored if self.scored else None


class Tally:
    """All runs of one replay."""

    def __init__(self, store: Store, strands: Sequence[Strand], final: frozenset[str]) -> None:
        self.started = time.monotonic()
        self.runs: dict[str, RunTally] = {}
        self.standing: Callable[[], str] = str
        """How a claim that the runs are watched for stands; empty: there is none."""
        for strand in strands:
            done = sum(status in final for status in store.done(strand.run).values())
            self.runs[strand.run.id] = RunTally(strand.run.agent, strand.run.count * strand.run.epochs, before=done)

    def hear(self, finished: Finished) -> None:
        """Count a finished attempt."""
        tally, attempt = self.runs[finished.run.id], finished.attempt
        tally.done += 1
        tally.cost_paid = (
            None if tally.cost_paid is None or attempt.cost_paid is None else tally.cost_paid + attempt.cost_paid
        )
        tally.tokens += (attempt.usage.input + attempt.usage.output) if attempt.usage else 0
        strict = next((score for score in finished.scores if score.scorer == "strict"), None)
        score = strict or next(iter(finished.scores), None)
        tally.outcomes[outcome(attempt.status, score.answer_status if score else "empty")] += 1
        if finished.scores:
            first = finished.scores[0]
            tally.scorer = tally.scorer or first.scorer
            if first.scorer == tally.scorer and first.value is not None:
                tally.value += first.value
                tally.scored += 1

    @property
    def done(self) -> int:
        """Attempts that ended in this process."""
        return sum(run.done for run in self.runs.values())

    @property
    def left(self) -> int:
        """Attempts still to be made."""
        return sum(run.total - run.before - run.done for run in self.runs.values())

    @property
    def rate(self) -> float:
        """Attempts a second since the start."""
        return self.done / max(time.monotonic() - self.started, 1e-6)

    @property
    def seconds_left(self) -> float | None:
        """At the mean rate so far; ``None`` before the first attempt."""
        return self.left / self.rate if self.done else None
