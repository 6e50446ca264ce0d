"""The words of scorers from outside, kept beside their scores.

A scorer that an installed package adds, or that a user named by an import path, may not be there when its scores are
compared again; and no code is imported because a store names it. So its name, unit, direction and words are written
into the store as data, and tables show them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.text import safe
from ragrounds.evals.scorers.base import StoredScorer
from ragrounds.evals.scorers.catalogue import NO_UNIT, SCORERS, described, tell
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import insert_new, upsert
from ragrounds.evals.store.store import Store

_KEY = "scorer:"
"""How the keys in the table ``meta`` begin."""


_TEXTS = ("summary", "method", "unit")


def keep_words(store: Store, names: Iterable[str]) -> None:
    """Write the words of scorers that did not come with ragrounds into the store, beside their scores."""
    shipped = SCORERS.shipped()
    rows = []
    for each in map(described, names):
        if each.name.partition("[")[0] not in shipped and each.unit != NO_UNIT:
            words = {name: getattr(each, name) for name in StoredScorer.__struct_fields__}
            kept = replace(msgspec.convert(words, StoredScorer), usual=False, by_card=False, on_request=True)
            rows.append(_row(kept))
    if rows:
        with store.engine.begin() as connection:
            connection.execute(upsert(store.engine, schema.meta), rows)


def recall_words(store: Store) -> None:
    """Make the words that a store keeps known to :func:`ragrounds.evals.scorers.described`."""
    for found in _kept(store.engine):
        tell(found)


def copy_words(source: sa.Engine, target: sa.Engine) -> None:
    """Copy the words that a store of any origin keeps into another one, which keeps those that it has."""
    rows = [_row(found) for found in _kept(source)]
    if rows:
        with target.begin() as connection:
            connection.execute(insert_new(target, schema.meta), rows)


def _row(scorer: StoredScorer) -> dict[str, str]:
    return {"key": f"{_KEY}{scorer.name}", "value": msgspec.json.encode(scorer).decode()}


def _kept(engine: sa.Engine) -> list[StoredScorer]:
    """What a store keeps, safe to show. Words that cannot be read are as good as none."""
    wanted = sa.select(schema.meta.c.key, schema.meta.c.value).where(schema.meta.c.key.startswith(_KEY))
    with engine.connect() as connection:
        rows = connection.execute(wanted).all()
    found = []
    for key, value in rows:
        try:
            read = msgspec.json.decode(str(value), type=StoredScorer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        if read.name == str(key).removeprefix(_KEY):
            texts = {name: safe(" ".join(getattr(read, name).split()), 200) for name in _TEXTS}
            found.append(replace(read, **texts, needs=""))
    return found


def unknown_words(names: Iterable[str]) -> list[str]:
    """A remark on each of these scorers of which nothing is known but the name."""
    return [
        f"The scorer {name!r} is not installed, and its unit is unknown: values are shown as they are, higher as "
        "better. Install its package, or give --scorer package.module:NAME."
        for name in names
        if described(name).unit == NO_UNIT
    ]
