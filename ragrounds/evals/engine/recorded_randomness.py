"""Clock and random values that systems use, in the journal: loaded before an attempt, recorded as it proceeds.

The key depends on the attempt (agent, question, epoch) and not on its run, so that a new run and a changed prompt find
the values of unchanged calls in the journal. The values between two calls are one record, whose key determines the key
of the next. If another attempt has used a key already, such as one of the same agent in another process, the record
gets a separate key that depends on who pays for the attempt.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable

import msgspec
from msgspec import Struct

from ragrounds.agents.agent import Agent
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.agents.systems.opening import module_named
from ragrounds.base.contracts import Entry
from ragrounds.base.records import Question
from ragrounds.base.specs import Spec, parse
from ragrounds.evals.engine.recording.side_loop import side_of
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import now
from ragrounds.recorder.clock import DRAWING, MOST, Values

_CHANGES_NOTHING = ("clock", "in_process", "python")
"""Settings of an agent that do not change the values that it uses; neither do its limits."""
_KEPT = 24 * 3600.0
"""Seconds for which the values that a module used at its import are reused under ``fresh``: no killed run pays twice.
"""


OPENINGS: dict[str, RecordedRandomness] = {}
"""Values of the systems that this process has opened last, by file or module."""


class _Drawn(Struct):
    values: dict[str, str]


class _DrawnFor(Struct):
    text: str
    """Description of the attempt, for people who read a journal file."""


class RecordedRandomness:
    """Recorded clock and random values of one attempt, or of the opening of a system: served by `values`, stored in the
    journal.
    """

    def __init__(self, actor: str, subject: str, root: object, payer: bytes = b"") -> None:
        self.values = Values(on_value=self._remember)
        self.keys: list[str] = []
        """Keys of the records that were used."""
        self.recorded = 0
        """Number of values in these records."""
        self._actor, self._description, self._payer = actor, subject, payer
        self._opening: RecordedRandomness | None = None
        self._next = _key(msgspec.msgpack.encode(root))
        self._unwritten: dict[str, str] = {}
        self._lock = threading.Lock()

    async def load(self, journal: StoreJournal) -> RecordedRandomness:
        """Read the values that were recorded before. Under ``fresh`` these are only the values of the same attempt."""
        while record := await self._next_record(journal):
            key, recorded_values = record
            self.values.recorded.update(list(recorded_values.items())[:MOST])
            self._follow(key, len(recorded_values))
        return self

    def load_at_first(self, journal: StoreJournal) -> RecordedRandomness:
        """Delay reading the recorded values until the first value is needed. This may be in any thread, and most
        attempts need none.
        """

        def load() -> None:
            """Read the values on the side loop, and wait."""
            side = side_of(journal)
            asyncio.run_coroutine_threadsafe(self.load(side.journal), side.loop).result()

        self.values.first = load
        return self

    async def open(self, journal: StoreJournal, values: Values) -> RecordedRandomness:
        """Read the values that were recorded when a system was last opened, for a system that is opened now.

        Under ``fresh`` they are generated again, unless they were recorded within the last day.
        """
        root, number, newest = self._next.encode(), 0, None
        while record := await journal.recorded_values(self._entry(_key(root, number.to_bytes(4, "big"))), _Drawn):
            newest, number = record, number + 1
        fresh = newest is not None and journal.mode == "fresh" and now() - newest[2] > _KEPT
        self._next = _key(root, (number if fresh else max(0, number - 1)).to_bytes(4, "big"))
        if newest is not None and not fresh:
            await self.load(journal)
        # Values that this process has used already, for another store, are in its loaded modules, so they take
        # precedence.
        process_values, recorded_values = dict(values.recorded), self.values.recorded
        values.recorded.update({source: value for source, value in recorded_values.items() if not process_values})
        self._unwritten = {source: value for source, value in process_values.items() if source not in recorded_values}
        self.values, values.on_value = values, self._remember
        return self

    def flush(self, journal: StoreJournal, read_request: Callable[[], bytes] | None = None) -> None:
        """Record the values that are not yet recorded. Identifiers are recorded only if a call contains them.

        An identifier that no call contains is generated again another time, because it may name an object that the
        system keeps elsewhere.
        """
        if not self._unwritten or journal.mode == "replay":
            return
        with self._lock:
            ids = {source: value for source, value in self._unwritten.items() if " uuid" in source}
            text = read_request() if ids and read_request else b""
            ids_not_sent = {
                source: value for source, value in ids.items() if read_request and value[:8].encode() not in text
            }
            to_record = {source: value for source, value in self._unwritten.items() if source not in ids_not_sent}
            self._unwritten = ids_not_sent
            for key in (self._next, self._own_key) if to_record else ():
                if journal.draw(self._entry(key), _Drawn(to_record)):
                    self._follow(key, len(to_record))
                    return

    def end(self, journal: StoreJournal) -> str:
        """Record the remaining values, and return a note about all of them for the attempt's trace; empty if there are
        none.
        """
        self.flush(journal, bytes)
        opening = self._opening
        if not (keys := [*(opening.keys if opening else ()), *self.keys]):
            return ""
        count = self.recorded + (opening.recorded if opening else 0)
        values = f"{count:,} value{'s' * (count != 1)}"
        return f"{values} of clock and chance, given back on resume and replay: {' '.join(keys)}"

    @property
    def _own_key(self) -> str:
        return _key(self._next.encode(), self._payer)

    async def _next_record(self, journal: StoreJournal) -> tuple[str, dict[str, str]] | None:
        """Return the next record: the attempt's own, or, except under ``fresh``, that of any attempt."""
        for key in (self._own_key, self._next) if self._payer else (self._next,):
            record = await journal.recorded_values(self._entry(key), _Drawn)
            if record is not None and (journal.mode != "fresh" or record[1] == self._payer):
                return key, record[0].values
        return None

    def _follow(self, key: str, count: int) -> None:
        self.keys.append(key)
        self.recorded += count
        self._next = _key(key.encode())

    def texts(self) -> list[str]:
        """Return all values, also those that the system used when it was opened."""
        opening = self._opening.texts() if self._opening else []
        return [*opening, *self.values.recorded.values()]

    def _remember(self, source: str, value: str) -> None:
        with self._lock:
            self._unwritten[source] = value

    def used(self, key: str) -> Entry:
        """Count one value in the record of a key, and return the entry of this record."""
        self.keys.append(key)
        self.recorded += 1
        return self._entry(key)

    def _entry(self, key: str) -> Entry:
        actor = f"clock and chance of {self._actor}"
        return Entry(key=key, kind="tool", actor=actor, request=_DrawnFor(self._description), payer=self._payer)


class AgentRandomness:
    """Recorded values for the attempts of an agent whose kind records them.

    None are recorded if its system runs in this process while no loaded file could use recorded values. Values that
    such a file uses during the attempt that loads it belong to that attempt.

    Args:
        agent: whose code uses the values.
    """

    def __init__(self, agent: Agent) -> None:
        spec = parse(agent.spec)
        settings = {
            k: v for k, v in spec.parameters.items() if k not in _CHANGES_NOTHING and not k.startswith("limits.")
        }
        self._actor, self._module = str(Spec(spec.name, settings)), module_named(agent.card.graph)
        self._in_process = kind_of(agent.card).is_in_process()

    async def values_for(
        self, journal: StoreJournal, question: Question, epoch: int, payer: bytes
    ) -> RecordedRandomness | None:
        """Return the recorded values for an attempt; ``None`` if it uses none. `payer` marks the calls that it pays
        for.

        Values that were recorded before are sent with the question to a system in a separate process.
        """
        if self._in_process and not DRAWING:
            return None
        description = f"{question.benchmark} {question.id}, epoch {epoch}"
        recorded = RecordedRandomness(
            self._actor, description, (self._actor, question.benchmark, question.id, epoch), payer
        )
        recorded._opening = OPENINGS.get(self._module)
        return recorded.load_at_first(journal) if self._in_process else await recorded.load(journal)


def _key(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join((b"drawn", *parts))).hexdigest()
