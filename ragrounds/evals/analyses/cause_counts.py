"""How often each likely cause is that of an answer that is not right, by run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import Struct

from ragrounds.base.records import Run
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.causes import CauseWord
from ragrounds.evals.trace.hop_reading import HopReader
from ragrounds.evals.trace.summaries import AttemptSummary, Pages

_CHUNK = 500
_MOST = 5_000
"""Attempts up to which causes are derived: each is read with its calls."""


class CauseCount(Struct, frozen=True, kw_only=True):
    """One cause."""

    word: CauseWord
    counts: dict[str, int]
    """Run id → how many attempts."""
    first: tuple[str, str, int]
    """The first such attempt: run id, question id, epoch."""


def cause_counts(
    store: Store, runs: Sequence[Run], scorers: Sequence[str], asked: Collection[str], epochs: int
) -> tuple[CauseCount, ...]:
    """The likely causes of attempts that are not right, the most frequent first; none where there are too many
    attempts to read them all.

    Args:
        store: where they are.
        runs: any number.
        scorers: whose scores count: of each question the first that it has a score by.
        asked: ids of the questions that count.
        epochs: how often each counts.
    """
    pages = Pages(store, runs, scorers)
    wrong: list[AttemptSummary] = []
    for start in range(0, len(pages), _CHUNK):
        wrong += [
            one
            for one in pages.read(range(start, min(len(pages), start + _CHUNK)))
            if one.question.id in asked and one.epoch < epochs and (one.wrong or one.troubled)
        ]
        if len(wrong) > _MOST:
            return ()
    reader = HopReader(pages)
    counted: dict[CauseWord, Counter[str]] = {}
    first: dict[CauseWord, tuple[str, str, int]] = {}
    for start in range(0, len(wrong), _CHUNK):
        for read in reader.read(wrong[start : start + _CHUNK]):
            if read.cause is not None:
                one = read.summary
                counted.setdefault(read.cause.word, Counter())[one.run.id] += 1
                first.setdefault(read.cause.word, (one.run.id, one.question.id, one.epoch))
    made = [CauseCount(word=word, counts=dict(counts), first=first[word]) for word, counts in counted.items()]
    return tuple(sorted(made, key=lambda one: -sum(one.counts.values())))
