"""Dependencies of a run's systems, stored with its attempts, and the facts that their servers report."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec

from ragrounds.agents.systems.reads import SystemDependencies
from ragrounds.base.digests import text_digest
from ragrounds.base.records import Attempt, Read, Run
from ragrounds.evals.engine.servers import asked_server
from ragrounds.evals.store.reads import read_rows, reads_of
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.models.options import server_of

_LONGEST = 1000
"""Largest number of characters of a server's facts; longer ones are stored as a digest."""


class RunDependencies:
    """Dependencies of one run, each stored once.

    Args:
        store: has the dependencies recorded before.
        run: the run.
        reads: present dependencies of its systems.
        asks: True if its servers may be asked for their facts, which a replay forbids.
    """

    def __init__(self, store: Store, run: Run, reads: SystemDependencies, *, asks: bool) -> None:
        self._store, self._number, self._reads, self._asks = store, store.number(run), reads, asks
        self._has_own_calls = run.identity.get("tier") == "own"
        self._stored_keys = {_key(dependency) for dependency in reads_of(store, run)}
        self._n_recorded = -1
        """Number of recorded dependencies at the last call of :meth:`rows`."""
        self.listening = reads.listening
        """Context manager in which dependencies are recorded as the system's."""

    async def rows(self, attempt: Attempt) -> list[Row]:
        """Return the rows of new dependencies, after an attempt has ended."""
        # The next attempt has begun, and may open changed versions of the same files before the digests are computed.
        before, listened = self._n_recorded, self._reads.listen()
        self._n_recorded = listened[0]
        dependencies: list[Read] = []
        if before != self._n_recorded:
            dependencies += await asyncio.to_thread(self._reads.reads, listened)
        if self._has_own_calls:
            actors = dict.fromkeys(call.actor for call in calls(attempt.events) if call.kind == "model")
            dependencies += [
                Read("model", actor, at=attempt.at + position / 1e3) for position, actor in enumerate(actors)
            ]
            known_servers = {name for kind, name, *_ in self._stored_keys if kind == "server"}
            servers = {server_of(actor) for actor in actors} - known_servers if self._asks else set[str]()
            dependencies += [Read("server", *fact) for fact in (await told_by(self._store, servers)).items()]
        if not dependencies:
            return []
        new_dependencies = [dependency for dependency in dependencies if _key(dependency) not in self._stored_keys]
        self._stored_keys |= {_key(dependency) for dependency in new_dependencies}
        return read_rows(new_dependencies, self._number)


def _key(read: Read) -> tuple[str, ...]:
    # The time of a model's or file's reading is not part of the key.
    return read.kind, read.name, read.value


async def told_by(store: Store, servers: Collection[str]) -> dict[str, str]:
    """Return the facts that servers report about their models, as :attr:`ragrounds.base.records.Read.value`: model and
    server → facts as JSON; empty if a server reports nothing.
    """
    reported = await asyncio.gather(*(asked_server(store, server) for server in servers))
    values = {}
    for server, known_server in zip(servers, reported, strict=True):
        facts = dict(known_server.facts) if known_server else {}
        text = msgspec.json.encode(facts, order="deterministic").decode() if facts else ""
        values[server] = text if len(text) <= _LONGEST else text_digest(text)
    return values
