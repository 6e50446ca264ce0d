"""Whole runs with everything recorded about their attempts, one at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import Trace, every_trace
from ragrounds.records import Run


def traces_by_question(store: Store, runs: Sequence[Run]) -> Iterator[Trace]:
    """The traces of several runs, those of one question beside each other."""
    return heapq.merge(
        *(every_trace(store, run) for run in runs), key=lambda trace: (trace.question.id, trace.attempt.epoch)
    )
