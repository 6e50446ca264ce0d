"""What a run was asked, in the order of its questions: question × epoch, each with its attempt where there is one.

A part of the questions is in memory at a time, and everything is found by key: a run ten times as long takes ten times
as long to read.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import StoredQuestion, attempt_of, decompress
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.retries import every_replaced
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Gold, Question, Run

_CHUNK = 400
"""Questions that are read at a time."""


class AskedQuestion(Struct, frozen=True):
    """A question of a run in one epoch, and the attempt at it."""

    question: Question
    gold: Gold
    epoch: int
    attempt: Attempt | None
    """``None``: not made yet."""


def asked(store: Store, run: Run) -> Iterator[list[AskedQuestion]]:
    """Everything that a run was asked, in parts of some hundred questions, with texts and events."""
    number, question, attempt = store.number(run), schema.questions, schema.attempts
    after = -1
    with autocommit(store.engine) as connection:
        while True:
            wanted = (
                sa.select(question.c.position, question.c.body)
                .where(question.c.set == run.questions, question.c.position > after)
                .order_by(question.c.position)
                .limit(_CHUNK)
            )
            rows = connection.execute(wanted).all()
            items = [msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion) for row in rows]
            ids = [item.question.id for item in items]
            made = connection.execute(
                sa.select(attempt).where(attempt.c.run == number, attempt.c.question_id.in_(ids))
            ).all()
            found = {(row.question_id, row.epoch): attempt_of(run, row, store.texts) for row in made}
            if items:
                yield [
                    AskedQuestion(item.question, item.gold, epoch, found.get((item.question.id, epoch)))
                    for item in items
                    for epoch in range(run.epochs)
                ]
            if len(rows) < _CHUNK:
                return
            after = rows[-1].position


class AttemptTotals(Struct, frozen=True, kw_only=True):
    """What a run's attempts come to. A sum with an unknown part is ``None``."""

    statuses: dict[str, int]
    """How many attempts ended in which status; those not made are not counted."""
    input: int | None
    output: int | None
    cost_paid: float | None
    cost_uncached: float | None
    seconds: float
    """Of all attempts, one after the other."""
    calls: int
    retried: int
    """Attempts that were made again; what the earlier ones cost is in `cost_paid`."""
    unrecorded: int = 0
    """Calls of foreign systems that were seen and are in no journal."""


def attempt_totals(store: Store, run: Run) -> AttemptTotals:
    """The sums over a run's attempts, made by the database."""
    table = schema.attempts
    summed = [table.c[name] for name in ("input", "output", "cost_paid", "cost_uncached")]
    statement = (
        sa.select(
            table.c.status,
            sa.func.count().label("attempts"),
            sa.func.count(table.c.retry).label("retried"),
            sa.func.sum(table.c.unrecorded).label("unrecorded"),
            *(sa.func.count(column).label(f"{column.name}_known") for column in summed),
            *(sa.func.sum(column).label(column.name) for column in (*summed, table.c.seconds, table.c.calls)),
        )
        .where(table.c.run == store.number(run))
        .group_by(table.c.status)
    )
    with autocommit(store.engine) as connection:
        rows = connection.execute(statement).all()
    earlier = [one.attempt.cost_paid for one in every_replaced(store, run)]
    made = [row for row in rows if row.status != "not_run"]

    def _sum(name: str) -> float | None:
        if any(getattr(row, f"{name}_known") < row.attempts for row in made):
            return None
        return float(sum(getattr(row, name) for row in made))

    paid = _sum("cost_paid")
    tokens = [_sum(name) for name in ("input", "output")]
    return AttemptTotals(
        statuses={row.status: int(row.attempts) for row in rows},
        input=None if tokens[0] is None else int(tokens[0]),
        output=None if tokens[1] is None else int(tokens[1]),
        cost_paid=None if paid is None or None in earlier else paid + sum(cost or 0.0 for cost in earlier),
        cost_uncached=_sum("cost_uncached"),
        seconds=float(sum(row.seconds for row in made)),
        calls=int(sum(row.calls for row in made)),
        retried=sum(int(row.retried) for row in rows),
        unrecorded=sum(int(row.unrecorded or 0) for row in rows),
    )
