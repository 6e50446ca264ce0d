"""What servers said of themselves, as the store keeps it: under the model and the server's address or alias."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.database import upsert, writing_failed
from ragrounds.evals.store.store import Store, now


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


def known_servers(store: Store, server: str) -> list[KnownServer]:
    """The servers that were met under an address or alias, that of the last time first."""
    table = schema.servers
    statement = sa.select(table).where(table.c.server == server).order_by(table.c.last.desc())
    with store.engine.connect() as connection:
        return [
            KnownServer(
                server=row.server,
                fingerprint=row.fingerprint,
                facts=msgspec.json.decode(row.facts, type=dict[str, str]),
                first=row.first,
                last=row.last,
            )
            for row in connection.execute(statement)
        ]


def keep_server(store: Store, server: str, fingerprint: str, facts: Mapping[str, str]) -> None:
    """Keep what a server told now; one of the same fingerprint is replaced, and keeps when it was met first.

    Raises:
        StopRun: the store cannot be written.
    """
    before = next((one.first for one in known_servers(store, server) if one.fingerprint == fingerprint), None)
    told, at = msgspec.json.encode(dict(facts), order="deterministic").decode(), now()
    row = {
        "server": server,
        "fingerprint": fingerprint,
        "facts": told,
        "first": at if before is None else before,
        "last": at,
    }
    try:
        with store.engine.begin() as connection:
            connection.execute(upsert(store.engine, schema.servers), [row])
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(store.engine, error) from error
