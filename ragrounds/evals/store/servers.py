"""Facts that servers report about themselves, as stored: under the model and the server's address or alias."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.specs import parse
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.store.database import SAVE, fetch_rows, store_location, upsert, writing
from ragrounds.evals.store.row_sums import is_whole_row, summed
from ragrounds.evals.store.store import now
from ragrounds.models.options import server_of
from ragrounds.tools.index.embedding_servers import fingerprints_in


class KnownServer(Struct, frozen=True, kw_only=True):
    """Server that was seen at an address or alias."""

    server: str
    """Model and server, as :attr:`ragrounds.models.options.ModelOptions.server`."""
    fingerprint: str
    """Fingerprint in the identity of models; empty for the first server that was seen, whose calls have keys without a
    fingerprint.
    """
    facts: Mapping[str, str]
    first: float
    """Times at which it was seen first, and last, in seconds since the epoch."""
    last: float


def known_servers(engine: sa.Engine, server: str) -> list[KnownServer]:
    """Return the servers that were seen at an address or alias, the last seen first."""
    table = schema.servers
    statement = sa.select(table).where(table.c.server == server).order_by(table.c.last.desc())
    rows = fetch_rows(engine, statement)
    if not all(is_whole_row(table, row) for row in rows):
        raise DamagedRecord(f"the record of {server} does not match its checksum", SAVE)
    facts_of_rows = [msgspec.json.decode(row.facts, type=dict[str, str]) for row in rows]
    return [
        KnownServer(server=row.server, fingerprint=row.fingerprint, facts=facts, first=row.first, last=row.last)
        for row, facts in zip(rows, facts_of_rows, strict=True)
    ]


def keep_server(engine: sa.Engine, server: str, fingerprint: str, facts: Mapping[str, str]) -> None:
    """Store the facts that a server reports now. A server of the same fingerprint is replaced, and its first time is
    kept.

    Raises:
        StopRun: the store cannot be written.
    """
    first_seen = next(
        (stored.first for stored in known_servers(engine, server) if stored.fingerprint == fingerprint), None
    )
    facts_json, seen_at = msgspec.json.encode(dict(facts), order="deterministic").decode(), now()
    first = seen_at if first_seen is None else first_seen
    row = {"server": server, "fingerprint": fingerprint, "facts": facts_json, "first": first, "last": seen_at}
    with writing(engine) as connection:
        connection.execute(upsert(engine, schema.servers), [summed(schema.servers, row)])


def fingerprint_in(run: Run, server: str) -> str:
    """Return the fingerprint of a server in a run's identity; empty if it has none."""
    models, retriever = run.identity.get("models"), run.identity.get("retriever")
    for text in models.values() if isinstance(models, dict) else ():
        if server_of(str(text)) == server:
            return str(parse(str(text)).parameters.get("fingerprint", ""))
    return fingerprints_in(parse(str(retriever))).get(server, "") if retriever else ""


def missing_servers(engine: sa.Engine, runs: Iterable[Run]) -> list[tuple[Run, str]]:
    """Return the runs, each with a server that answered it, whose record of the server the store has lost."""
    known = set(map(tuple, fetch_rows(engine, sa.select(schema.servers.c.server, schema.servers.c.fingerprint))))
    return [
        (run, server) for run in runs for server in run.servers if (server, fingerprint_in(run, server)) not in known
    ]


def adopt_servers(engine: sa.Engine, runs: Iterable[Run], *, check: bool) -> None:
    """Store the servers of runs that come from another store, unless they are known; with `check` only compare them.

    Raises:
        UserError: the store knows another server under the same identity: the calls of both would have equal keys.
        StopRun: the store cannot be written.
    """
    from ragrounds.models.server_facts import described, differing

    for run in runs:
        for server, facts in run.servers.items():
            mark = fingerprint_in(run, server)
            stored = next(
                (candidate for candidate in known_servers(engine, server) if candidate.fingerprint == mark), None
            )
            if stored is None and not check:
                keep_server(engine, server, mark, facts)
            if stored is not None and (names := differing(stored.facts, facts)):
                raise UserError(
                    f"The run {run.id} was answered by another server than {store_location(engine)} knows as "
                    f"{server}: it "
                    f"reported {described(facts, names)}, the known one {described(stored.facts, names)}. Recorded "
                    "calls of the two would mix, so nothing was written. Keep the run in a separate store."
                )
