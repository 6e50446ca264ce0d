"""What the systems of a run read, kept with its attempts; and what the servers tell that they ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager

import msgspec

from ragrounds.agents.systems import reads_of_systems
from ragrounds.base.digests import text_digest
from ragrounds.base.records import Attempt, Read
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.engine.servers import asked_server
from ragrounds.evals.store.reads import read_rows, reads_of
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.models.options import server_of

_LONGEST = 1000
"""Characters of what a server told; of more a digest is kept."""


class RunReads:
    """What is read for one run, each once.

    Args:
        store: what was read for it before.
        planned: the run.
        asks: the servers that it asks may be asked what they are: this is no replay.
    """

    def __init__(self, store: Store, planned: PlannedRun, *, asks: bool) -> None:
        cards = [one.card for one in planned.agent.whole]
        self._store, self._number, self._asks = store, store.number(planned.run), asks
        self._reads = reads_of_systems(cards)
        self._own = planned.run.identity.get("tier") == "own" and any(one.endpoint is None for one in cards)
        self._kept = {_key(one) for one in reads_of(store, planned.run)} if self._reads else set[tuple[str, ...]]()
        self._heard = -1
        """How much was heard when :meth:`rows` was asked last."""
        self.listening: Callable[[], AbstractContextManager[None]] = (
            self._reads.listening if self._reads else contextlib.nullcontext
        )
        """Has what happens in a context heard as the system's."""

    async def rows(self, attempt: Attempt) -> list[Row]:
        """The rows of what is new once an attempt has ended."""
        if self._reads is None:
            return []
        before, self._heard = self._heard, self._reads.listen()
        found: list[Read] = []
        if before != self._heard:
            found += await asyncio.to_thread(self._reads.reads)
        if self._own:
            asked = dict.fromkeys(call.actor for call in calls(attempt.events) if call.kind == "model")
            found += [Read("model", actor, at=attempt.at + place / 1e3) for place, actor in enumerate(asked)]
            known = {name for kind, name, *_ in self._kept if kind == "server"}
            servers = {server_of(actor) for actor in asked} - known if self._asks else set[str]()
            found += [Read("server", *one) for one in (await told_by(self._store, servers)).items()]
        if not found:
            return []
        new = [one for one in found if _key(one) not in self._kept]
        self._kept |= {_key(one) for one in new}
        return read_rows(new, self._number)


def _key(read: Read) -> tuple[str, ...]:
    # A model's or file's time is no other reading.
    return read.kind, read.name, read.value


async def told_by(store: Store, servers: Collection[str]) -> dict[str, str]:
    """What servers tell of their models, as :attr:`ragrounds.base.records.Read.value`: model and server → facts as
    JSON; empty: nothing."""
    told = await asyncio.gather(*(asked_server(store, server) for server in servers))
    return {server: _written(one.facts if one else {}) for server, one in zip(servers, told, strict=True)}


def _written(facts: Mapping[str, str]) -> str:
    text = msgspec.json.encode(dict(facts), order="deterministic").decode() if facts else ""
    return text if len(text) <= _LONGEST else text_digest(text)
