"""Attempts with all that the journal holds of their calls, many at once: each kind of row in one statement."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
import sqlalchemy as sa

from ragrounds.base.records import Attempt, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import DamagedRecord, StoredQuestion, attempts_of, decompress
from ragrounds.evals.store.database import chunks
from ragrounds.evals.store.store import packed_calls
from ragrounds.evals.trace.traces import TracedCall, calls, traced_calls

_PASSAGE = 4000
"""Characters up to which a text is kept in memory: passages and instructions come again and again."""
_KEPT = 4096
"""Texts kept in memory."""
Place = tuple[str, int]
"""A question's id and an epoch."""


class AttemptReader:
    """Reads attempts on a connection of its caller, not the store's. One thread at a time may use it."""

    def __init__(self) -> None:
        self._texts: dict[bytes, str] = {}

    def read(
        self, connection: sa.Connection, run: Run, number: int, places: Sequence[Place], known: Container[str] = ()
    ) -> dict[Place, tuple[Attempt, tuple[TracedCall, ...]]]:
        """Attempts of a run with their calls, by question id and epoch. One that is damaged is left out, and so are
        the request and the reply of a damaged call: ``ragrounds doctor --store`` names them. Those of calls that are
        `known`, by their keys, are left out too."""
        self._connection = connection
        made = self._attempts(run, number, set(places))
        every = [call for attempt in made.values() for call in calls(attempt.events)]
        found = iter(traced_calls(self, [call for call in every if call.key not in known]))
        traced = iter(TracedCall(call) if call.key in known else next(found) for call in every)
        read = {
            place: (attempt, tuple(islice(traced, sum(1 for _ in calls(attempt.events)))))
            for place, attempt in made.items()
        }
        short = {hash: text for hash, text in self._texts.items() if len(text) <= _PASSAGE}
        self._texts = dict(islice(short.items(), max(0, len(short) - _KEPT), None))
        return read

    def _attempts(self, run: Run, number: int, wanted: set[Place]) -> dict[Place, Attempt]:
        table = schema.attempts
        found: dict[Place, Attempt] = {}
        for chunk in chunks(sorted({question_id for question_id, _ in wanted})):
            statement = sa.select(table).where(table.c.run == number, table.c.question_id.in_(chunk))
            rows = [row for row in self._connection.execute(statement) if (row.question_id, row.epoch) in wanted]
            for one in attempts_of(run, rows, self.texts):
                found[one.question_id, one.epoch] = one
        return found

    def packed_calls(self, keys: Iterable[str], requests: bool = True) -> dict[str, tuple[bytes | None, bytes]]:
        """As :meth:`ragrounds.evals.store.store.Store.packed_calls`."""
        return packed_calls(self._connection.execute, keys, requests)

    def texts(self, hashes: Iterable[bytes]) -> dict[bytes, str]:
        """Long texts by their hashes; one that is damaged is left out, and so is every record that refers to it."""
        wanted, table = set(hashes), schema.blobs
        for chunk in chunks(sorted(wanted - self._texts.keys())):
            for row in self._connection.execute(sa.select(table).where(table.c.hash.in_(chunk))):
                with suppress(DamagedRecord, UnicodeDecodeError):
                    self._texts[bytes(row.hash)] = decompress(row.data).decode()
        return {hash: self._texts[hash] for hash in wanted if hash in self._texts}


def stored_questions(connection: sa.Connection, run: Run, ids: Iterable[str]) -> Mapping[str, StoredQuestion]:
    """Questions of a run by their ids."""
    table = schema.questions
    found: dict[str, StoredQuestion] = {}
    for chunk in chunks(sorted(set(ids))):
        wanted = sa.select(table.c.body).where(table.c.set == run.questions, table.c.question_id.in_(chunk))
        for row in connection.execute(wanted):
            item = msgspec.msgpack.decode(decompress(row.body), type=StoredQuestion)
            found[item.question.id] = item
    return found
