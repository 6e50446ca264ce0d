"""Attempts with the recorded requests and responses of their calls, many at once: each kind of row in one statement."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
import sqlalchemy as sa

from ragrounds.base.chunks import chunks
from ragrounds.base.records import Attempt, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import DamagedRecord, StoredQuestion, attempts_of, decompress
from ragrounds.evals.store.store import packed_calls
from ragrounds.evals.trace.traces import TracedCall, calls, traced_calls

_PASSAGE = 4000
"""Largest number of characters of a text that is kept in memory: passages and instructions recur often."""
_KEPT = 4096
"""Number of texts kept in memory."""
Place = tuple[str, int]
"""Question id and epoch."""


class AttemptReader:
    """Reader of attempts on a connection of its caller, not the store's. One thread at a time may use it."""

    def __init__(self) -> None:
        self._texts: dict[bytes, str] = {}

    def read(
        self, connection: sa.Connection, run: Run, number: int, keys: Sequence[Place], known: Container[str] = ()
    ) -> dict[Place, tuple[Attempt, tuple[TracedCall, ...]]]:
        """Read attempts of a run with their calls, by question id and epoch.

        A damaged attempt is left out, and so are the request and the reply of a damaged call: ``ragrounds doctor
        --store`` names them. Calls whose keys are in `known` come without request and reply.
        """
        self._connection = connection
        attempts = self._attempts(run, number, set(keys))
        all_calls = [call for attempt in attempts.values() for call in calls(attempt.events)]
        traced_unknown = iter(traced_calls(self, [call for call in all_calls if call.key not in known]))
        traced = iter(TracedCall(call) if call.key in known else next(traced_unknown) for call in all_calls)
        with_calls = {
            attempt_key: (attempt, tuple(islice(traced, sum(1 for _ in calls(attempt.events)))))
            for attempt_key, attempt in attempts.items()
        }
        short_texts = {hash: text for hash, text in self._texts.items() if len(text) <= _PASSAGE}
        self._texts = dict(islice(short_texts.items(), max(0, len(short_texts) - _KEPT), None))
        return with_calls

    def _attempts(self, run: Run, number: int, attempt_keys: set[Place]) -> dict[Place, Attempt]:
        table = schema.attempts
        attempts: dict[Place, Attempt] = {}
        for chunk in chunks(sorted({question_id for question_id, _ in attempt_keys})):
            statement = sa.select(table).where(table.c.run == number, table.c.question_id.in_(chunk))
            rows = [row for row in self._connection.execute(statement) if (row.question_id, row.epoch) in attempt_keys]
            for attempt in attempts_of(run, rows, self.texts):
                if isinstance(attempt, Attempt):
                    attempts[attempt.key] = attempt
        return attempts

    def packed_calls(self, keys: Iterable[str], requests: bool = True) -> dict[str, tuple[bytes | None, bytes]]:
        """Return packed calls like :meth:`ragrounds.evals.store.store.Store.packed_calls`."""
        return packed_calls(self._connection.execute, keys, requests)

    def texts(self, hashes: Iterable[bytes]) -> dict[bytes, str]:
        """Return long texts by their hashes. A damaged text is left out, and so is every record that refers to it."""
        requested, table = set(hashes), schema.blobs
        for chunk in chunks(sorted(requested - self._texts.keys())):
            for row in self._connection.execute(sa.select(table).where(table.c.hash.in_(chunk))):
                with suppress(DamagedRecord, UnicodeDecodeError):
                    self._texts[bytes(row.hash)] = decompress(row.data).decode()
        return {hash: self._texts[hash] for hash in requested if hash in self._texts}


def stored_questions(connection: sa.Connection, run: Run, ids: Iterable[str]) -> Mapping[str, StoredQuestion]:
    """Return questions of a run by their ids."""
    table = schema.questions
    questions: dict[str, StoredQuestion] = {}
    for chunk in chunks(sorted(set(ids))):
        statement = sa.select(table.c.body).where(table.c.set == run.questions, table.c.question_id.in_(chunk))
        for row in connection.execute(statement):
            stored = msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion)
            questions[stored.question.id] = stored
    return questions
