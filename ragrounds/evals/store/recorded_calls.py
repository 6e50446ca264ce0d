"""Attempts with all that the journal holds of their calls, many at once: each kind of row in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import sqlalchemy as sa
from msgspec import MsgspecError

from ragrounds.contracts import Request, SearchRequest, SearchResult
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import DamagedRecord, attempt_of, decode_without_texts, decompress, unpack
from ragrounds.evals.store.traces import TracedCall, calls
from ragrounds.records import Attempt, Call, Reply, Run

T = TypeVar("T")
_CHUNK = 500
_PASSAGE = 4000
"""Characters up to which a text is kept in memory: passages and instructions come again and again."""
_KEPT = 4096
"""Texts kept in memory."""
Place = tuple[str, int]
"""A question's id and an epoch."""


class AttemptReader:
    """Reads attempts on a connection of its caller. One thread at a time may use it."""

    def __init__(self) -> None:
        self._texts: dict[bytes, str] = {}

    def read(
        self, connection: sa.Connection, run: Run, number: int, places: Sequence[Place]
    ) -> dict[Place, tuple[Attempt, tuple[TracedCall, ...]]]:
        """Attempts of a run with their calls, by question id and epoch. One that is damaged is left out, and so are
        the request and the reply of a damaged call: ``ragrounds doctor --store`` names them."""
        made = self._attempts(connection, run, number, places)
        keys = {call.key for attempt in made.values() for call in calls(attempt.events) if call.key}
        recorded = self._recorded(connection, sorted(keys))
        read = {
            place: (attempt, tuple(self._traced(call, recorded.get(call.key)) for call in calls(attempt.events)))
            for place, attempt in made.items()
        }
        short = {hash: text for hash, text in self._texts.items() if len(text) <= _PASSAGE}
        self._texts = dict(islice(short.items(), max(0, len(short) - _KEPT), None))
        return read

    def _attempts(
        self, connection: sa.Connection, run: Run, number: int, places: Sequence[Place]
    ) -> dict[Place, Attempt]:
        table, wanted = schema.attempts, set(places)
        found: dict[Place, Attempt] = {}
        for chunk in _chunks(sorted({question_id for question_id, _ in places})):
            statement = sa.select(table).where(table.c.run == number, table.c.question_id.in_(chunk))
            rows = [row for row in connection.execute(statement) if (row.question_id, row.epoch) in wanted]
            self._fetch(connection, (row.body for row in rows))
            for row in rows:
                try:
                    found[row.question_id, row.epoch] = attempt_of(run, row, self._known)
                except DamagedRecord:
                    continue
        return found

    def _recorded(self, connection: sa.Connection, keys: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        table = schema.calls
        found: dict[str, tuple[bytes, bytes]] = {}
        for chunk in _chunks(keys):
            wanted = sa.select(table.c.key, table.c.request, table.c.response)
            rows = connection.execute(wanted.where(table.c.key.in_([bytes.fromhex(key) for key in chunk])))
            found.update({bytes(row.key).hex(): (row.request, row.response) for row in rows})
        self._fetch(connection, (part for pair in found.values() for part in pair))
        return found

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
            for row in connection.execute(sa.select(table).where(table.c.hash.in_(chunk))):
                try:
                    self._texts[bytes(row.hash)] = decompress(row.data).decode()
                except (DamagedRecord, UnicodeDecodeError):
                    continue  # and so is every record that refers to it

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
                searched = unpack(asked, SearchRequest, self._known)
                return TracedCall(call, searched=searched, passages=found.passages, when=found.searched)
            if call.kind == "tool":
                used = unpack(asked, dict[str, object], self._known)
                if "messages" not in used:  # not an address that an agent's file lists
                    return TracedCall(call, used=used, gave=unpack(gave, dict[str, object], self._known))
            return TracedCall(call, asked=unpack(asked, Request, self._known), reply=unpack(gave, Reply, self._known))
        except DamagedRecord:
            return TracedCall(call)


def _chunks(items: Sequence[T]) -> Iterator[list[T]]:
    return (list(items[at : at + _CHUNK]) for at in range(0, len(items), _CHUNK))
