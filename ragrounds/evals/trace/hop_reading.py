"""Attempts read with their hops: many at once, on a connection of one's own.

A viewer reads a screenful at a time in a thread, beside what the rest of it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.records import Attempt, Run, Score
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import DamagedRecord, score_of
from ragrounds.evals.store.database import SAVE
from ragrounds.evals.store.row_sums import is_whole_row
from ragrounds.evals.trace.attempt_facts import derived_facts, make_facts
from ragrounds.evals.trace.causes import Cause, cause_of
from ragrounds.evals.trace.hops import Hop, hops_of
from ragrounds.evals.trace.recorded_calls import AttemptReader
from ragrounds.evals.trace.run_rows import score_rows_of
from ragrounds.evals.trace.summaries import AttemptSummary, Pages
from ragrounds.evals.trace.traces import TracedCall


class HopsOfAttempt(Struct, frozen=True, kw_only=True):
    """An attempt with its hops and, where it is not right, the likely cause."""

    summary: AttemptSummary
    attempt: Attempt | None
    """``None``: not made yet, or damaged."""
    calls: tuple[TracedCall, ...] = ()
    hops: tuple[Hop, ...] = ()
    scores: tuple[Score, ...] = ()
    cause: Cause | None = None


class HopReader:
    """Reads attempts with their hops. One thread at a time may use it."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._reader = AttemptReader()

    def read(self, summaries: Sequence[AttemptSummary], only_gold: bool = True) -> list[HopsOfAttempt]:
        """These attempts, in this order.

        Args:
            summaries: rows of the pages.
            only_gold: derive the fate of gold passages alone, which is enough for a line.
        """
        read: dict[int, HopsOfAttempt] = {}
        with self._pages.connect() as connection:
            for run in {one.run.id: one.run for one in summaries}.values():
                mine = [one for one in summaries if one.run.id == run.id]
                places = [(one.question.id, one.epoch) for one in mine]
                number, scores = self._pages.number(run), dict[tuple[str, int], list[Score]]()
                made = self._reader.read(connection, run, number, places)
                for row in score_rows_of(connection, number, sorted({question for question, _ in places})):
                    with suppress(DamagedRecord):
                        scores.setdefault((row.question_id, row.epoch), []).append(score_of(run, row))
                for one, place in zip(mine, places, strict=True):
                    attempt, traced = made.get(place, (None, ()))
                    read[one.index] = _with_hops(one, attempt, traced, tuple(scores.get(place, ())), only_gold)
        return [read[one.index] for one in summaries]


def _with_hops(
    summary: AttemptSummary,
    attempt: Attempt | None,
    traced: tuple[TracedCall, ...],
    scores: tuple[Score, ...],
    only_gold: bool,
) -> HopsOfAttempt:
    if attempt is None:
        return HopsOfAttempt(summary=summary, attempt=None)
    hops = hops_of(traced, summary.gold, only_gold)
    because = cause_of(attempt, traced, summary.question, summary.gold, scores, summary.scorer, hops)
    return HopsOfAttempt(summary=summary, attempt=attempt, calls=traced, hops=hops, scores=scores, cause=because)


class GoldHop(Struct, frozen=True):
    """Where an attempt found gold first."""

    searches: int | None
    """``None``: not known."""
    hop: int | None
    """The first search that found gold, from 1; ``None``: none did."""


def gold_hops(pages: Pages, run: Run) -> dict[tuple[str, int], GoldHop]:
    """(question id, epoch) → where the attempt found gold first, of all attempts at questions whose gold is known. It
    is read from the facts of the attempts, which are made first where they lack.

    Raises:
        StopRun: the store cannot be written.
    """
    facts, number = schema.facts.c, pages.number(run)
    rows: list[Mapping[str, Any]] = []
    if pages.store.writable:
        make_facts(pages.store, [run])
    else:
        rows += (row for some in derived_facts(pages.store, [run]) for row in some if row["gold"])
    with pages.connect() as connection:
        kept = connection.execute(sa.select(schema.facts).where(facts.run == number, facts.gold > 0)).all()
    if not all(is_whole_row(schema.facts, row) for row in kept):
        raise DamagedRecord(f"what is known of the searches of {run.id} does not match its checksum", SAVE)
    rows += (dict(row._mapping) for row in kept)
    return {
        (row["question_id"], row["epoch"]): GoldHop(
            None if row["gold_found"] is None else row["hops"] + row["failed_searches"], row["gold_hop"]
        )
        for row in rows
    }


def may_have_searched(pages: Pages, run: Run) -> bool:
    """Whether any attempt of a run searched, or used a tool by which it may have."""
    attempts = schema.attempts
    with pages.connect() as connection:
        searched = sa.or_(attempts.c.searches > 0, attempts.c.tool_calls > 0)
        wanted = sa.select(attempts.c.epoch).where(attempts.c.run == pages.number(run), searched).limit(1)
        return connection.execute(wanted).first() is not None


def usual_searches(pages: Pages, share: float = 0.95) -> int:
    """How many searches this share of the attempts needs no more than, by the facts that are kept; 0: none are."""
    table = schema.facts
    made = table.c.hops + table.c.failed_searches
    with pages.connect() as connection:
        numbers = [pages.number(run) for run in pages.runs]
        wanted = sa.select(made, sa.func.count()).where(table.c.run.in_(numbers)).group_by(made)
        counted = sorted((int(searches), int(count)) for searches, count in connection.execute(wanted))
    left = share * sum(count for _, count in counted)
    for searches, count in counted:
        left -= count
        if left <= 0:
            return searches
    return 0
