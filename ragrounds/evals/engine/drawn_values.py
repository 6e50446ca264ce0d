"""What systems draw from clock and chance, in the journal: loaded before an attempt, recorded as it goes on.

The key is what an attempt is of (agent, question, epoch) and not its run, so that a new run and a changed prompt find
in the journal what is asked as before. What is drawn between two calls is one record; the next one's key follows from
its own. Where another attempt was there first, as of the same agent in another process, a record has a key of its own
by who pays for the attempt.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable

import msgspec
from msgspec import Struct

from ragrounds.agents.agent import Agent
from ragrounds.agents.systems import is_foreign
from ragrounds.agents.systems.opening import module_named
from ragrounds.base.contracts import Entry
from ragrounds.base.records import Question
from ragrounds.base.specs import Spec, parse
from ragrounds.evals.engine.recording.side_loop import side_of
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import now
from ragrounds.recorder.clock import DRAWING, MOST, Values

_CHANGES_NOTHING = ("clock", "in_process", "python")
"""Settings of an agent that change nothing of what it draws, nor do its limits."""
_KEPT = 24 * 3600.0
"""Seconds for which what a module drew at its import is given back under ``fresh``: no killed run pays twice."""


OPENINGS: dict[str, DrawnValues] = {}
"""What systems drew that this process has opened last, by file or module."""


class _Drawn(Struct):
    values: dict[str, str]


class _DrawnFor(Struct):
    text: str
    """What drew it, for people who read a journal file."""


class DrawnValues:
    """What one attempt, or the opening of a system, draws: given by `values`, kept in the journal."""

    def __init__(self, actor: str, what: str, root: object, payer: bytes = b"") -> None:
        self.values = Values(told=self._told)
        self.keys: list[str] = []
        """Of the records that it rests on."""
        self.recorded = 0
        """Values in these."""
        self._actor, self._what, self._payer = actor, what, payer
        self._opening: DrawnValues | None = None
        self._next = _key(msgspec.msgpack.encode(root))
        self._unwritten: dict[str, str] = {}
        self._lock = threading.Lock()

    async def load(self, journal: StoreJournal) -> DrawnValues:
        """Read what was drawn before. Under ``fresh`` that is what the same attempt drew."""
        while found := await self._found(journal):
            key, held = found
            self.values.known.update(list(held.items())[:MOST])
            self._follow(key, len(held))
        return self

    def load_at_first(self, journal: StoreJournal) -> DrawnValues:
        """Read what was drawn before once something is drawn: it may be in any thread, and most attempts draw
        nothing."""

        def load() -> None:
            """Read it on the loop beside, and wait."""
            side = side_of(journal)
            asyncio.run_coroutine_threadsafe(self.load(side.journal), side.loop).result()

        self.values.first = load
        return self

    async def open(self, journal: StoreJournal, values: Values) -> DrawnValues:
        """Read what was drawn when a system was opened last, for it that is opened now. Under ``fresh`` it is drawn
        anew, unless that was today."""
        root, number, newest = self._next.encode(), 0, None
        while found := await journal.drawn(self._entry(_key(root, number.to_bytes(4, "big"))), _Drawn):
            newest, number = found, number + 1
        fresh = newest is not None and journal.mode == "fresh" and now() - newest[2] > _KEPT
        self._next = _key(root, (number if fresh else max(0, number - 1)).to_bytes(4, "big"))
        if newest is not None and not fresh:
            await self.load(journal)
        # What this process has drawn already, for another store, is what its modules hold.
        held, known = dict(values.known), self.values.known
        values.known.update({place: value for place, value in known.items() if not held})
        self._unwritten = {place: value for place, value in held.items() if place not in known}
        self.values, values.told = values, self._told
        return self

    def flush(self, journal: StoreJournal, asked: Callable[[], bytes] | None = None) -> None:
        """Record what is not yet, and of an attempt's identifiers those that a call asks: any other is drawn anew
        another time, as it may name what the system itself keeps elsewhere."""
        if not self._unwritten or journal.mode == "replay":
            return
        with self._lock:
            ids = {place: value for place, value in self._unwritten.items() if " uuid" in place}
            text = asked() if ids and asked else b""
            unseen = {place: value for place, value in ids.items() if asked and value[:8].encode() not in text}
            taken = {place: value for place, value in self._unwritten.items() if place not in unseen}
            self._unwritten = unseen
            for key in (self._next, self._own) if taken else ():
                if journal.draw(self._entry(key), _Drawn(taken)):
                    self._follow(key, len(taken))
                    return

    def end(self, journal: StoreJournal) -> str:
        """Record the rest; gives a note of it all for the attempt's trace, or nothing."""
        self.flush(journal, bytes)
        opening = self._opening
        if not (keys := [*(opening.keys if opening else ()), *self.keys]):
            return ""
        count = self.recorded + (opening.recorded if opening else 0)
        values = f"{count:,} value{'s' * (count != 1)}"
        return f"{values} of clock and chance, given back on resume and replay: {' '.join(keys)}"

    @property
    def _own(self) -> str:
        return _key(self._next.encode(), self._payer)

    async def _found(self, journal: StoreJournal) -> tuple[str, dict[str, str]] | None:
        """The next record: the attempt's own, or, but under ``fresh``, anybody's."""
        for key in (self._own, self._next) if self._payer else (self._next,):
            found = await journal.drawn(self._entry(key), _Drawn)
            if found is not None and (journal.mode != "fresh" or found[1] == self._payer):
                return key, found[0].values
        return None

    def _follow(self, key: str, count: int) -> None:
        self.keys.append(key)
        self.recorded += count
        self._next = _key(key.encode())

    def _told(self, place: str, value: str) -> None:
        with self._lock:
            self._unwritten[place] = value

    def _entry(self, key: str) -> Entry:
        actor = f"clock and chance of {self._actor}"
        return Entry(key=key, kind="tool", actor=actor, request=_DrawnFor(self._what), payer=self._payer)


class AgentDraws:
    """What the attempts of an agent draw. One whose system has the real clock draws nothing, and neither does one of
    this process as long as no file is loaded here that could: what such a file draws while the attempt goes on that
    loads it is its own.

    Args:
        agent: whose code draws.
        here: its system is in this process.
    """

    def __init__(self, agent: Agent, *, here: bool) -> None:
        spec = parse(agent.spec)
        set_ = {k: v for k, v in spec.parameters.items() if k not in _CHANGES_NOTHING and not k.startswith("limits.")}
        self._actor, self._module = str(Spec(spec.name, set_)), module_named(agent.card.graph)
        self._real = bool(agent.card.clock) or agent.card.endpoint is not None or not is_foreign(agent.card)
        self._here = here

    async def of(self, journal: StoreJournal, question: Question, epoch: int, payer: bytes) -> DrawnValues | None:
        """What an attempt draws; ``None``: nothing. `payer` marks the calls that it pays for. What was drawn before
        goes with the question to a system in a process of its own."""
        if self._real or (self._here and not DRAWING):
            return None
        what = f"{question.benchmark} {question.id}, epoch {epoch}"
        made = DrawnValues(self._actor, what, (self._actor, question.benchmark, question.id, epoch), payer)
        made._opening = OPENINGS.get(self._module)
        return made.load_at_first(journal) if self._here else await made.load(journal)


def _key(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join((b"drawn", *parts))).hexdigest()
