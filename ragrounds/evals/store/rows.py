"""Records as rows of the tables, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.packing import Fetch, compress, decompress, pack, storable, unpack
from ragrounds.evals.store.writer import Row
from ragrounds.records import Attempt, Call, Event, Run, Score, Usage
from ragrounds.text import wellformed


class AttemptBody(Struct, frozen=True):
    """The part of an attempt that no table shows."""

    text: str
    events: tuple[Event, ...]


NOTHING = AttemptBody("", ())


def attempt_rows(attempt: Attempt, number: int) -> list[Row]:
    """The rows of an attempt of the run `number`, its long texts apart."""
    body, apart = pack(storable(AttemptBody(attempt.text, attempt.events)))
    usage = attempt.usage
    row = {
        "run": number,
        "question_id": attempt.question_id,
        "epoch": attempt.epoch,
        "status": attempt.status,
        "reason": _column(attempt.reason),
        "input": usage.input if usage else None,
        "output": usage.output if usage else None,
        "cached": usage.cached if usage else None,
        "reasoning": usage.reasoning if usage else None,
        "cost_paid": attempt.cost_paid,
        "cost_uncached": attempt.cost_uncached,
        "seconds": attempt.seconds,
        "at": attempt.at,
        "calls": attempt.calls,
        "body": body,
    }
    return [*blob_rows(apart), (schema.attempts, row)]


def attempt_of(run: Run, row: Any, fetch: Fetch | None) -> Attempt:
    """The attempt of a row; without text and events where `fetch` is ``None``."""
    body = unpack(row.body, AttemptBody, fetch) if fetch else NOTHING
    return Attempt(
        run=run.id,
        question_id=row.question_id,
        epoch=row.epoch,
        status=row.status,
        text=body.text,
        reason=row.reason,
        usage=None if row.input is None else Usage(row.input, row.output, row.cached, row.reasoning),
        cost_paid=row.cost_paid,
        cost_uncached=row.cost_uncached,
        seconds=row.seconds,
        at=row.at,
        calls=row.calls,
        events=body.events,
    )


def score_rows(scores: Iterable[Score], number: int) -> list[Row]:
    """The rows of some scores of the run `number`."""
    return [(schema.scores, _score_row(score, number)) for score in scores]


def grading_rows(calls: Iterable[Call], number: int) -> list[Row]:
    """The rows of judges' calls for the run `number`: of those that gave a reply, each once."""
    known: dict[str, Call] = {}
    for call in calls:
        # Where a call was made and then reused, it was paid.
        if call.key and not call.error and (call.key not in known or known[call.key].cached):
            known[call.key] = msgspec.structs.replace(call, faults=())
    return [
        (schema.gradings, {"run": number, "key": bytes.fromhex(key), "body": compress(msgspec.msgpack.encode(call))})
        for key, call in known.items()
    ]


def blob_rows(apart: Mapping[bytes, bytes]) -> list[Row]:
    """Rows for texts stored apart."""
    return [(schema.blobs, {"hash": hash, "data": data}) for hash, data in apart.items()]


def run_body(run: Run) -> bytes:
    """A run as its table keeps it."""
    return compress(msgspec.msgpack.encode(run))


def run_of(body: bytes) -> Run:
    """The run again."""
    return msgspec.msgpack.decode(decompress(body), type=Run)


def _score_row(score: Score, number: int) -> dict[str, Any]:
    row = {"run": number, **msgspec.structs.asdict(score)}
    for name in ("prediction", "reason"):
        row[name] = _column(row[name])
    return row


def _column(text: str) -> str:
    # A text column of PostgreSQL takes no NUL, and no encoder takes lone surrogates.
    return wellformed(text).replace("\0", "\ufffd")
