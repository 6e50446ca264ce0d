"""Wording of scorers from outside, stored next to their scores.

A scorer that an installed package adds, or that a user named by an import path, may not be installed when its scores
are compared again, and no code is imported because a store names it. So its name, unit, direction and wording are
written into the store as data, and tables show them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.text import safe
from ragrounds.evals.scorers.base import StoredScorer
from ragrounds.evals.scorers.catalogue import NO_UNIT, described, is_shipped, tell
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import fetch_rows, insert_new, upsert
from ragrounds.evals.store.row_sums import meta_value, summed_meta
from ragrounds.evals.store.store import Store

_KEY = "scorer:"
"""Prefix of the keys in the table ``meta``."""


_TEXTS = ("summary", "method", "unit")


def keep_words(store: Store, names: Iterable[str]) -> None:
    """Write the wording of scorers that did not come with ragrounds into the store, next to their scores."""
    rows = []
    for scorer in map(described, names):
        if not is_shipped(scorer.name) and scorer.unit != NO_UNIT:
            words = {name: getattr(scorer, name) for name in StoredScorer.__struct_fields__}
            stored = replace(msgspec.convert(words, StoredScorer), usual=False, by_card=False, on_request=True)
            rows.append(_row(stored))
    if rows:
        with store.engine.begin() as connection:
            connection.execute(upsert(store.engine, schema.meta), rows)


def recall_words(store: Store) -> None:
    """Register the wording in a store with :func:`ragrounds.evals.scorers.described`."""
    for scorer in _stored_scorers(store.engine):
        tell(scorer)


def copy_words(source: sa.Engine, target: sa.Engine) -> None:
    """Copy the wording in a store of any origin into another store, which keeps its existing entries."""
    rows = [_row(scorer) for scorer in _stored_scorers(source)]
    if rows:
        with target.begin() as connection:
            connection.execute(insert_new(target, schema.meta), rows)


def _row(scorer: StoredScorer) -> dict[str, str]:
    return summed_meta(f"{_KEY}{scorer.name}", msgspec.json.encode(scorer).decode())


def _stored_scorers(engine: sa.Engine) -> list[StoredScorer]:
    """Return the scorers whose wording a store holds, safe to show. Unreadable entries are ignored."""
    query = sa.select(schema.meta.c.key, schema.meta.c.value).where(schema.meta.c.key.startswith(_KEY))
    scorers = []
    for key, value in fetch_rows(engine, query):
        try:
            scorer = msgspec.json.decode(meta_value(str(key), str(value)) or "", type=StoredScorer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        if scorer.name == str(key).removeprefix(_KEY):
            texts = {name: safe(" ".join(getattr(scorer, name).split()), 200) for name in _TEXTS}
            scorers.append(replace(scorer, **texts, needs=""))
    return scorers


def unknown_words(names: Iterable[str]) -> list[str]:
    """Return a remark on each of these scorers of which only the name is known."""
    return [
        f"The scorer {name!r} is not installed, and its unit is unknown: values are shown as they are, higher as "
        "better. Install its package, or give --scorer package.module:NAME."
        for name in names
        if described(name).unit == NO_UNIT
    ]
