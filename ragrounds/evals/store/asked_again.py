"""Attempts that are made again (`ragrounds runs retry`), and those that they are made in place of.

What was answered is never lost: an attempt is copied among the earlier ones before it is made again, and stays the
attempt of its question until the new one is written in its place. So the store is whole at every moment, a process that
dies in between loses nothing, and whoever resumes the run finds what is still to be made again: the attempts that stand
among the earlier ones themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import attempt_of
from ragrounds.evals.store.database import autocommit, chunks, insert_new, snapshot, stream, writing
from ragrounds.evals.store.store import Store
from ragrounds.records import FINAL, Attempt, Run

AttemptKey = tuple[str, int]
"""Question id and epoch."""
_E, _A = schema.earlier_attempts, schema.attempts
ANSWER_STATUS = "answer status"
"""What `chosen` begins with where an attempt was chosen by what came of it."""
KEY_BYTES = 32
"""Of a call's key in the journal."""


class AskedAgain(Struct, frozen=True):
    """Why an attempt is made again, and which of its calls are."""

    chosen: str
    """What it was chosen by: ``status failed``, ``answer status empty``."""
    keys: tuple[str, ...]
    """Keys of the recorded calls whose replies are not taken again."""


def following_key(key: str) -> str:
    """The key under which a call is asked and recorded whose reply under `key` is not taken again."""
    return hashlib.sha256(b"again\0" + bytes.fromhex(key)).hexdigest()


def begin_retry(store: Store, run: Run, chosen: Mapping[AttemptKey, AskedAgain]) -> None:
    """Copy these attempts among the earlier ones: from now on they are to be made again. One that is already to be made
    again stays as it was set down first.

    Raises:
        StopRun: the store cannot be written.
    """
    number = store.number(run)
    shared = [column.name for column in _A.c if column.name in _E.c]
    with writing(store.engine) as connection:
        for (question_id, epoch), again in chosen.items():
            wanted = sa.select(_A).where(_A.c.run == number, _A.c.question_id == question_id, _A.c.epoch == epoch)
            row = connection.execute(wanted).one()
            copied = {name: getattr(row, name) for name in shared}
            more = {"retry": row.retry, "chosen": again.chosen, "asked_again": _packed(again.keys)}
            connection.execute(insert_new(store.engine, _E), [copied | more])


class Retries(Struct, frozen=True):
    """The attempts of a run that were begun again, by question id and epoch."""

    numbers: Mapping[AttemptKey, int]
    """The number of the newest retry that was begun, from 1."""
    open: frozenset[AttemptKey]
    """Those whose newest retry is not written yet."""


def retries(store: Store, run: Run) -> Retries:
    """The attempts of a run that were begun again."""
    with autocommit(store.engine) as connection:
        return retries_of(connection, store.number(run))


def retries_of(connection: sa.Connection, number: int) -> Retries:
    """As :func:`retries`, of the run `number`."""
    key = (_E.c.question_id, _E.c.epoch)
    newest = sa.select(*key, sa.func.max(_E.c.retry), sa.func.max(_A.c.retry)).where(_E.c.run == number)
    rows = connection.execute(newest.join(_A, _same_place()).group_by(*key)).all()
    return Retries(
        {(id, epoch): kept + 1 for id, epoch, kept, _ in rows},
        frozenset((id, epoch) for id, epoch, kept, standing in rows if kept == standing),
    )


def _same_place() -> sa.ColumnElement[bool]:
    return sa.and_(*(_E.c[name] == _A.c[name] for name in ("run", "question_id", "epoch")))


def settled(store: Store, run: Run) -> dict[AttemptKey, str]:
    """Question id and epoch → status of the attempts that are not made again when the run is resumed."""
    done, again = store.done(run), retries(store, run).open
    return {key: status for key, status in done.items() if status in FINAL and key not in again}


def fault_of(attempt: Attempt) -> str:
    """The kind of fault that an attempt failed by: that of its call (``rate_limit``), the name of an error of its graph
    (``ValueError``), or ``other``."""
    kind = attempt.reason.partition(":")[0]
    return kind if kind.isidentifier() else "other"


def replaced_attempts(run: int) -> sa.Select[tuple[sa.Row[tuple[object, ...]]]]:
    """The statement that selects the earlier attempts of the run number `run` in whose place there is a newer one."""
    return sa.select(_E).where(_E.c.run == run, sa.exists().where(_same_place(), _A.c.retry > _E.c.retry))


class EarlierAttempt(Struct, frozen=True):
    """An attempt in whose place there is a newer one."""

    attempt: Attempt
    chosen: str
    """Why it was made again: ``status failed``."""


def earlier_attempts(store: Store, run: Run, question_id: str, epoch: int = 0) -> tuple[EarlierAttempt, ...]:
    """The attempts at a question that newer ones have replaced, the first one first, with text and events."""
    statement = replaced_attempts(store.number(run)).where(_E.c.question_id == question_id, _E.c.epoch == epoch)
    with autocommit(store.engine) as connection:
        rows = connection.execute(statement.order_by(_E.c.retry)).all()
    return tuple(EarlierAttempt(attempt_of(run, row, store.texts), row.chosen) for row in rows)


def every_replaced(store: Store, run: Run) -> Iterator[EarlierAttempt]:
    """All attempts of a run that newer ones have replaced, without text and events."""
    wanted = replaced_attempts(store.number(run))
    columns = [column for column in _E.c if column.name not in ("body", "asked_again")]
    with snapshot(store.engine) as connection:
        for row in stream(connection, wanted.with_only_columns(*columns), 500):
            yield EarlierAttempt(attempt_of(run, row, None), row.chosen)


def paid_before_retries(store: Store, run: Run) -> float | None:
    """Dollars that the attempts of a run were paid which have been, or are to be, made again; ``None``: not known."""
    with autocommit(store.engine) as connection:
        costs = connection.execute(sa.select(_E.c.cost_paid).where(_E.c.run == store.number(run))).scalars().all()
    return None if None in costs else sum((cost or 0.0 for cost in costs), 0.0)


class ReplacedReplies(Struct, frozen=True):
    """Which recorded replies are not taken again, and the keys under which they are asked in their place."""

    retried: Mapping[str, str] = {}
    """For attempts that are made again: the key to ask under."""
    others: Mapping[str, str] = {}
    """For other attempts, of another run of the same identity: the newest of these keys that the journal holds. They
    replay what a retry has brought, and ask nothing again themselves."""


def replaced_replies(store: Store, run: Run) -> ReplacedReplies:
    """The replies that this run, and others of its identity, do not take again. Runs of other agents that share the
    calls keep what was answered first: what came of one agent's attempts says nothing of theirs."""
    same = sa.select(schema.runs.c.number).where(schema.runs.c.fingerprint == run.fingerprint)
    with autocommit(store.engine) as connection:
        packed = connection.execute(sa.select(_E.c.asked_again).where(_E.c.run.in_(same))).scalars().all()
        keys = {key for one in packed for key in unpacked(bytes(one))}
        chains = {key: [following_key(key)] for key in sorted(keys)}
        for chain in chains.values():
            while chain[-1] in keys:
                chain.append(following_key(chain[-1]))
        held: set[str] = set()
        asked = [bytes.fromhex(key) for key in sorted({key for chain in chains.values() for key in chain})]
        for chunk in chunks(asked):
            wanted = sa.select(schema.calls.c.key).where(schema.calls.c.key.in_(chunk))
            held |= {bytes(row.key).hex() for row in connection.execute(wanted)}
    newest = {key: next((one for one in reversed(chain) if one in held), key) for key, chain in chains.items()}
    return ReplacedReplies({key: chain[-1] for key, chain in chains.items()}, newest)


def _packed(keys: tuple[str, ...]) -> bytes:
    return b"".join(bytes.fromhex(key) for key in keys)


def unpacked(data: bytes) -> list[str]:
    """The keys of a row's `asked_again`.

    Raises:
        ValueError: it is not made of whole keys.
    """
    if len(data) % KEY_BYTES:
        raise ValueError("the calls that were asked again are not whole keys")
    return [data[start : start + KEY_BYTES].hex() for start in range(0, len(data), KEY_BYTES)]
