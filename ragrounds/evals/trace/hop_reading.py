"""Reading attempts with their hops: many at once, on a separate connection.

A viewer reads a screenful at a time in a thread, in parallel to its other reads.
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
    """Attempt with its hops and, if it is not right, the likely cause."""

    summary: AttemptSummary
    attempt: Attempt | None
    """The attempt; ``None`` if it was not made yet, or is damaged."""
    calls: tuple[TracedCall, ...] = ()
    hops: tuple[Hop, ...] = ()
    scores: tuple[Score, ...] = ()
    cause: Cause | None = None


class HopReader:
    """Reader of attempts with their hops. One thread at a time may use it."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._reader = AttemptReader()

    def read(self, summaries: Sequence[AttemptSummary], only_gold: bool = True) -> list[HopsOfAttempt]:
        """Read these attempts, in this order.

        Args:
            summaries: rows of the pages.
            only_gold: derive the fate of gold passages alone, which is enough for a row of a list.
        """
        with_hops: dict[int, HopsOfAttempt] = {}
        with self._pages.connect() as connection:
            for run in {summary.run.id: summary.run for summary in summaries}.values():
                run_summaries = [summary for summary in summaries if summary.run.id == run.id]
                attempt_keys = [(summary.question.id, summary.epoch) for summary in run_summaries]
                number, scores = self._pages.number(run), dict[tuple[str, int], list[Score]]()
                attempts = self._reader.read(connection, run, number, attempt_keys)
                for row in score_rows_of(connection, number, sorted({question for question, _ in attempt_keys})):
                    with suppress(DamagedRecord):
                        scores.setdefault((row.question_id, row.epoch), []).append(score_of(run, row))
                for summary, attempt_key in zip(run_summaries, attempt_keys, strict=True):
                    if attempt_key not in attempts:
                        with_hops[summary.index] = HopsOfAttempt(summary=summary, attempt=None)
                        continue
                    (attempt, traced), attempt_scores = attempts[attempt_key], tuple(scores.get(attempt_key, ()))
                    question, gold = summary.question, summary.gold
                    hops = hops_of(traced, gold, only_gold)
                    cause = cause_of(attempt, traced, question, gold, attempt_scores, summary.scorer, hops)
                    with_hops[summary.index] = HopsOfAttempt(
                        summary=summary, attempt=attempt, calls=traced, hops=hops, scores=attempt_scores, cause=cause
                    )
        return [with_hops[summary.index] for summary in summaries]


class GoldHop(Struct, frozen=True):
    """First search of an attempt that found gold."""

    searches: int | None
    """Number of searches; ``None`` if it is not known."""
    hop: int | None
    """Number of the first search that found gold, from 1; ``None`` if none did."""


def gold_hops(pages: Pages, run: Run) -> dict[tuple[str, int], GoldHop]:
    """Map (question id, epoch) to the first search that found gold, for all attempts at questions with known gold.

    It is read from the facts of the attempts. Missing facts are derived first.

    Raises:
        StopRun: the store cannot be written.
        DamagedRecord: a row of facts does not match its checksum.
    """
    facts, number = schema.facts.c, pages.number(run)
    rows: list[Mapping[str, Any]] = []
    if pages.store.writable:
        make_facts(pages.store, [run])
    else:
        rows += (row for batch in derived_facts(pages.store, [run]) for row in batch if row["gold"])
    with pages.connect() as connection:
        stored = connection.execute(sa.select(schema.facts).where(facts.run == number, facts.gold > 0)).all()
    if not all(is_whole_row(schema.facts, row) for row in stored):
        raise DamagedRecord(f"what is known of the searches of {run.id} does not match its checksum", SAVE)
    rows += (dict(row._mapping) for row in stored)
    return {
        (row["question_id"], row["epoch"]): GoldHop(
            None if row["gold_found"] is None else row["hops"] + row["failed_searches"], row["gold_hop"]
        )
        for row in rows
    }


def may_have_searched(pages: Pages, run: Run) -> bool:
    """Return True if any attempt of a run searched, or used a tool that may have searched."""
    attempts = schema.attempts
    with pages.connect() as connection:
        searched = sa.or_(attempts.c.searches > 0, attempts.c.tool_calls > 0)
        statement = sa.select(attempts.c.epoch).where(attempts.c.run == pages.number(run), searched).limit(1)
        return connection.execute(statement).first() is not None
