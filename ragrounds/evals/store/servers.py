"""What servers said of themselves, as the store keeps it: under the model and the server's address or alias."""

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
from ragrounds.evals.store.database import SAVE, shown, upsert, writing
from ragrounds.evals.store.row_sums import is_whole_row, summed
from ragrounds.evals.store.store import now
from ragrounds.models.options import server_of
from ragrounds.tools.index.embedding_servers import fingerprints_in


class KnownServer(Struct, frozen=True, kw_only=True):
    """A server that was met under an address or alias."""

    server: str
    """:attr:`ragrounds.models.options.ModelOptions.server`."""
    fingerprint: str
    """As it stands in the identity of models; empty: the first that was met, whose calls are keyed as ever."""
    facts: Mapping[str, str]
    first: float
    """When it was met first, and last, in seconds since the epoch."""
    last: float


def known_servers(engine: sa.Engine, server: str) -> list[KnownServer]:
    """The servers that were met under an address or alias, that of the last time first."""
    table = schema.servers
    statement = sa.select(table).where(table.c.server == server).order_by(table.c.last.desc())
    with engine.connect() as connection:
        rows = connection.execute(statement).all()
    if not all(is_whole_row(table, row) for row in rows):
        raise DamagedRecord(f"what {server} told of itself does not match its checksum", SAVE)
    told = [msgspec.json.decode(row.facts, type=dict[str, str]) for row in rows]
    return [
        KnownServer(server=row.server, fingerprint=row.fingerprint, facts=facts, first=row.first, last=row.last)
        for row, facts in zip(rows, told, strict=True)
    ]


def keep_server(engine: sa.Engine, server: str, fingerprint: str, facts: Mapping[str, str]) -> None:
    """Keep what a server told now; one of the same fingerprint is replaced, and keeps when it was met first.

    Raises:
        StopRun: the store cannot be written.
    """
    before = next((one.first for one in known_servers(engine, server) if one.fingerprint == fingerprint), None)
    told, at = msgspec.json.encode(dict(facts), order="deterministic").decode(), now()
    first = at if before is None else before
    row = {"server": server, "fingerprint": fingerprint, "facts": told, "first": first, "last": at}
    with writing(engine) as connection:
        connection.execute(upsert(engine, schema.servers), [summed(schema.servers, row)])


def fingerprint_in(run: Run, server: str) -> str:
    """The fingerprint of a server in a run's identity; empty: it has none."""
    models, retriever = run.identity.get("models"), run.identity.get("retriever")
    for text in models.values() if isinstance(models, dict) else ():
        if server_of(str(text)) == server:
            return str(parse(str(text)).parameters.get("fingerprint", ""))
    return fingerprints_in(parse(str(retriever))).get(server, "") if retriever else ""


def adopt_servers(engine: sa.Engine, runs: Iterable[Run], *, check: bool) -> None:
    """Know the servers of runs that come from another store: those that the store does not know are kept, or, where it
    is only to be checked, nothing is.

    Raises:
        UserError: the store knows another server under the same identity: the calls of both would have equal keys.
        StopRun: the store cannot be written.
    """
    from ragrounds.models.server_facts import described, differing

    for run in runs:
        for server, facts in run.servers.items():
            mark = fingerprint_in(run, server)
            known = next((one for one in known_servers(engine, server) if one.fingerprint == mark), None)
            if known is None and not check:
                keep_server(engine, server, mark, facts)
            if known is not None and (names := differing(known.facts, facts)):
                raise UserError(
                    f"The run {run.id} was answered by another server than {shown(engine)} knows as {server}: it "
                    f"reported {described(facts, names)}, the known one {described(known.facts, names)}. Recorded "
                    "calls of the two would mix, so nothing was written. Keep the run in a separate store."
                )
