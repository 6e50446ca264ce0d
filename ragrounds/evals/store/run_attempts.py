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
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Gold, Question, Run

_CHUNK = 400
"""Questions that are read at a time."""


class QuestionAttempt(Struct, frozen=True):
    """A question of a run in one epoch, and the attempt at it."""

    question: Question
    gold: Gold
    epoch: int
    attempt: Attempt | None
    """``None``: not made yet."""


def run_attempts(store: Store, run: Run) -> Iterator[list[QuestionAttempt]]:
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
                    QuestionAttempt(item.question, item.gold, epoch, found.get((item.question.id, epoch)))
                    for item in items
                    for epoch in range(run.epochs)
                ]
            if len(rows) < _CHUNK:
                return
            after = rows[-1].position
