"""Attempts read for their hops: many at once, each kind of row in one statement, on a connection of one's own.

A viewer reads a screenful at a time in a thread, beside what the rest of it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

import sqlalchemy as sa
from msgspec import MsgspecError, Struct, msgpack

from ragrounds.contracts import Request, SearchRequest, SearchResult
from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_facts import VERSION
from ragrounds.evals.store.causes import Cause, cause_of
from ragrounds.evals.store.codec import (
    DamagedRecord,
    StoredQuestion,
    attempt_of,
    decode_without_texts,
    decompress,
    score_of,
    unpack,
)
from ragrounds.evals.store.hops import Hop, hops_of
from ragrounds.evals.store.summaries import AttemptSummary, Pages
from ragrounds.evals.store.traces import TracedCall, calls
from ragrounds.records import Attempt, Call, Reply, Run, Score

T = TypeVar("T")
_CHUNK = 500
_PASSAGE = 4000
"""Characters up to which a text is kept in memory: passages and instructions come again and again."""
_KEPT = 4096
"""Texts kept in memory."""


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
        self._numbers: dict[str, int] = {}
        self._scorers: dict[int, tuple[str, ...]] = {}
        self._texts: dict[bytes, str] = {}

    def read(self, summaries: Sequence[AttemptSummary], only_gold: bool = True) -> list[HopsOfAttempt]:
        """These attempts, in this order.

        Args:
            summaries: rows of the pages.
            only_gold: derive the fate of gold passages alone, which is enough for a line.
        """
        with self._pages.connect() as connection:
            self._numbers = self._numbers or run_numbers(connection, self._pages.runs)
            attempts = self._attempts(connection, summaries)
            made = [call for attempt in attempts.values() for call in calls(attempt.events) if call.key]
            recorded = self._recorded(connection, made)
            scores = self._scores(connection, summaries)
        read: list[HopsOfAttempt] = []
        for summary in summaries:
            place = (summary.run.id, summary.question.id, summary.epoch)
            attempt = attempts.get(place)
            if attempt is None:
                read.append(HopsOfAttempt(summary=summary, attempt=None))
                continue
            traced = tuple(self._traced(call, recorded.get(call.key)) for call in calls(attempt.events))
            hops = hops_of(traced, summary.gold, only_gold)
            own = tuple(scores.get(place, ()))
            because = cause_of(attempt, traced, summary.question, summary.gold, own, summary.scorer, hops)
            read.append(
                HopsOfAttempt(summary=summary, attempt=attempt, calls=traced, hops=hops, scores=own, cause=because)
            )
        short = {hash: text for hash, text in self._texts.items() if len(text) <= _PASSAGE}
        self._texts = dict(islice(short.items(), max(0, len(short) - _KEPT), None))
        return read

    def _attempts(
        self, connection: sa.Connection, summaries: Sequence[AttemptSummary]
    ) -> dict[tuple[str, str, int], Attempt]:
        table = schema.attempts
        found: dict[tuple[str, str, int], Attempt] = {}
        for run in {summary.run.id: summary.run for summary in summaries}.values():
            names = sorted({one.question.id for one in summaries if one.run.id == run.id})
            for chunk in _chunks(names):
                wanted = sa.select(table).where(table.c.run == self._numbers[run.id], table.c.question_id.in_(chunk))
                rows = connection.execute(wanted).all()
                self._fetch(connection, (row.body for row in rows))
                for row in rows:
                    try:
                        found[run.id, row.question_id, row.epoch] = attempt_of(run, row, self._known)
                    except DamagedRecord:
                        continue  # `ragrounds doctor --store` names it
        return found

    def _recorded(self, connection: sa.Connection, made: Iterable[Call]) -> dict[str, tuple[bytes, bytes]]:
        table = schema.calls
        found: dict[str, tuple[bytes, bytes]] = {}
        for chunk in _chunks(sorted({call.key for call in made})):
            wanted = sa.select(table.c.key, table.c.request, table.c.response)
            rows = connection.execute(wanted.where(table.c.key.in_([bytes.fromhex(key) for key in chunk]))).all()
            found.update({bytes(row.key).hex(): (row.request, row.response) for row in rows})
        self._fetch(connection, (part for pair in found.values() for part in pair))
        return found

    def _scores(
        self, connection: sa.Connection, summaries: Sequence[AttemptSummary]
    ) -> dict[tuple[str, str, int], list[Score]]:
        table = schema.scores
        found: dict[tuple[str, str, int], list[Score]] = {}
        for run in {summary.run.id: summary.run for summary in summaries}.values():
            number = self._numbers[run.id]
            names = sorted({one.question.id for one in summaries if one.run.id == run.id})
            for scorer in self._scorers_of(connection, number):
                for chunk in _chunks(names):
                    wanted = sa.select(table).where(table.c.run == number, table.c.scorer == scorer)
                    for row in connection.execute(wanted.where(table.c.question_id.in_(chunk))):
                        with suppress(DamagedRecord):
                            found.setdefault((run.id, row.question_id, row.epoch), []).append(score_of(run, row))
        return found

    def _scorers_of(self, connection: sa.Connection, number: int) -> tuple[str, ...]:
        """One step of the index a scorer: naming no scorer would pass over all scores of the run."""
        table, names, last = schema.scores, list[str](), ""
        while True:
            after = sa.select(sa.func.min(table.c.scorer)).where(table.c.run == number, table.c.scorer > last)
            last = connection.execute(after).scalar() or ""
            if not last:
                return tuple(names)
            names.append(last)

    def _fetch(self, connection: sa.Connection, bodies: Iterable[bytes]) -> None:
        """Read the long texts that some packed records refer to."""
        wanted: set[bytes] = set()
        for body in bodies:
            try:
                wanted |= decode_without_texts(body)[1]
            except (ValueError, MsgspecError):
                continue  # damaged: whoever decodes it says so
        table = schema.blobs
        for chunk in _chunks(sorted(wanted - self._texts.keys())):
            rows = connection.execute(sa.select(table).where(table.c.hash.in_(chunk)))
            self._texts.update({bytes(row.hash): decompress(row.data).decode() for row in rows})

    def _known(self, hashes: Iterable[bytes]) -> dict[bytes, str]:
        return {hash: self._texts[hash] for hash in hashes if hash in self._texts}

    def _traced(self, call: Call, recorded: tuple[bytes, bytes] | None) -> TracedCall:
        """As :func:`ragrounds.evals.store.traces.traced_call`; a damaged record is one that is not there."""
        if recorded is None:
            return TracedCall(call)
        asked, gave = recorded
        try:
            if call.kind == "search":
                found = unpack(gave, SearchResult, self._known)
                return TracedCall(call, searched=unpack(asked, SearchRequest, self._known), passages=found.passages)
            if call.kind == "tool":
                used = unpack(asked, dict[str, object], self._known)
                if "messages" not in used:  # not an address that an agent's file lists
                    return TracedCall(call, used=used, gave=unpack(gave, dict[str, object], self._known))
            return TracedCall(call, asked=unpack(asked, Request, self._known), reply=unpack(gave, Reply, self._known))
        except DamagedRecord:
            return TracedCall(call)


class GoldHop(Struct, frozen=True):
    """Where an attempt found gold first."""

    searches: int
    hop: int | None
    """The first search that found gold, from 1; ``None``: none did."""


def gold_hops(pages: Pages, run: Run) -> dict[tuple[str, int], GoldHop]:
    """(question id, epoch) → where the attempt found gold first, of all attempts at questions whose gold is known.

    It is read from the facts that are kept with each attempt; where there are none, from its calls.
    """
    table, attempts, place = schema.facts, schema.attempts, pages.runs.index(run)
    found: dict[tuple[str, int], GoldHop] = {}
    with pages.connect() as connection:
        number = run_numbers(connection, [run])[run.id]
        made = sa.select(attempts.c.question_id, attempts.c.epoch).where(attempts.c.run == number)
        missing = {(row.question_id, row.epoch) for row in connection.execute(made)}
        for row in connection.execute(sa.select(table).where(table.c.run == number)):
            key = (row.question_id, row.epoch)
            if row.version == VERSION and key in missing:
                missing.discard(key)
                if row.gold:
                    found[key] = GoldHop(row.searches + row.failed_searches, row.gold_hop)
    reader = HopReader(pages)
    for chunk in _chunks(sorted(missing)):
        rows = [pages.row_of(place, question_id, epoch) for question_id, epoch in chunk]
        for read in reader.read(pages.read(row for row in rows if row is not None)):
            if read.attempt is not None and read.summary.gold.documents:
                first = next((hop.number for hop in read.hops if hop.gold_ranks), None)
                found[read.summary.question.id, read.summary.epoch] = GoldHop(len(read.hops), first)
    return found


def clusters_of(pages: Pages, run: Run) -> dict[str, str]:
    """Question id → what the question is drawn together with, where that is more than itself."""
    table = schema.questions
    found: dict[str, str] = {}
    with pages.connect() as connection:
        for row in connection.execute(sa.select(table.c.body).where(table.c.set == run.questions)):
            question = msgpack.decode(decompress(row.body), type=StoredQuestion).question
            if question.cluster:
                found[question.id] = question.cluster
    return found


def usual_searches(pages: Pages, share: float = 0.95) -> int:
    """How many searches this share of the attempts needs no more than, by the facts that are kept; 0: none are."""
    table = schema.facts
    made = table.c.searches + table.c.failed_searches
    with pages.connect() as connection:
        numbers = run_numbers(connection, pages.runs).values()
        wanted = sa.select(made, sa.func.count()).where(table.c.run.in_(numbers)).group_by(made)
        counted = sorted((int(searches), int(count)) for searches, count in connection.execute(wanted))
    left = share * sum(count for _, count in counted)
    for searches, count in counted:
        left -= count
        if left <= 0:
            return searches
    return 0


def run_numbers(connection: sa.Connection, runs: Sequence[Run]) -> dict[str, int]:
    """The numbers of runs in the store, by their ids."""
    table = schema.runs
    rows = connection.execute(sa.select(table.c.id, table.c.number).where(table.c.id.in_([run.id for run in runs])))
    return {row.id: int(row.number) for row in rows}


def _chunks(items: Sequence[T]) -> Iterator[list[T]]:
    return (list(items[at : at + _CHUNK]) for at in range(0, len(items), _CHUNK))
