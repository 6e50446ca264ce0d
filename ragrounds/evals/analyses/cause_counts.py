"""Counts of the likely causes of answers that are not right, by run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import Struct

from ragrounds.base.chunks import chunks
from ragrounds.base.records import Run
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.causes import CauseWord
from ragrounds.evals.trace.hop_reading import HopReader
from ragrounds.evals.trace.summaries import Pages

_CHUNK = 500
_MOST_ATTEMPTS = 5_000
"""Largest number of attempts for which causes are derived: each is read with its calls."""


class CauseCount(Struct, frozen=True, kw_only=True):
    """Number of attempts with one cause."""

    word: CauseWord
    counts: dict[str, int]
    """Run id → number of attempts."""
    first: tuple[str, str, int]
    """First such attempt: run id, question id, epoch."""


def cause_counts(
    store: Store, runs: Sequence[Run], scorers: Sequence[str], question_ids: Collection[str], epochs: int
) -> tuple[CauseCount, ...]:
    """Return the likely causes of attempts that are not right, the most frequent first.

    The result is empty if there are too many attempts to read them all.

    Args:
        store: store of the runs.
        runs: runs to count, any number.
        scorers: scorers in order of preference; the first that has a score of a question counts.
        question_ids: ids of the questions that count.
        epochs: number of epochs of each question that count.
    """
    pages = Pages(store, runs, scorers)
    positions = [
        {position for position, question in enumerate(store.questions(run)[0]) if question.id in question_ids}
        for run in runs
    ]
    # Rows are counted before any is read, because reading costs most.
    wrong: list[int] = []
    for index in pages.order("wrong or troubled"):
        run_index, position, epoch = pages.locate(index)
        if position in positions[run_index] and epoch < epochs:
            wrong.append(index)
    if len(wrong) > _MOST_ATTEMPTS:
        return ()
    reader = HopReader(pages)
    counted: dict[CauseWord, Counter[str]] = {}
    first: dict[CauseWord, tuple[str, str, int]] = {}
    for batch in chunks(wrong, _CHUNK):
        for attempt in reader.read(pages.read(batch)):  # a damaged row has no cause
            if attempt.cause is not None:
                summary = attempt.summary
                counted.setdefault(attempt.cause.word, Counter())[summary.run.id] += 1
                first.setdefault(attempt.cause.word, (summary.run.id, summary.question.id, summary.epoch))
    cause_list = [CauseCount(word=word, counts=dict(counts), first=first[word]) for word, counts in counted.items()]
    return tuple(sorted(cause_list, key=lambda cause_count: -sum(cause_count.counts.values())))
