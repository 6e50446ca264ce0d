"""Runs of a replay, with their store, their journal and their scorers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from msgspec import Struct

from ragrounds.base.records import AttemptKey, Question
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store

Scorers = Callable[[Question], Sequence[ScorerRecord]]
"""Function from a question to its scorers."""


class ReplayedRuns(Struct, frozen=True):
    """Runs that are replayed."""

    store: Store
    journal: StoreJournal
    planned_runs: Sequence[PlannedRun]
    scorers: Scorers
    done: Mapping[str, Set[AttemptKey]] = {}
    """Attempts that are not made again, by run id. The store is read for runs that are not in it."""
