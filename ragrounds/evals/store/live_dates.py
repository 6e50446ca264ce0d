"""When a run's live corpora (the web, PubMed) were searched: they change by themselves, and have a date for a version.

It is the journal's date of each search, so a run that is answered from the journal shows when its results were really
found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls
from ragrounds.records import Noted, Run
from ragrounds.tools.search_notes import LIVE

_CHUNK = 500
"""Keys of one look-up."""


_SAID = (
    ("search_refused", "{} had a query that was refused"),
    ("query_cut", "{} had a query cut to the provider's length"),
)


def live_words(store: Store, run: Run) -> str:
    """When a run's live corpora were searched (UTC), and how many of its attempts had a query that was refused or cut;
    empty: it has none, or nothing was found yet."""
    tools = run.identity.get("tools")
    listed = [tool.get("corpus") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    named = dict.fromkeys(str(corpus) for corpus in (run.identity.get("corpus"), *listed) if LIVE in str(corpus))
    if not named:
        return ""
    corpus = ", ".join(named)
    keys: set[bytes] = set()
    kinds: Counter[str] = Counter()
    count = 0
    for attempt in store.attempts(run, skip_damaged=True):
        count += 1
        made = (call for call in calls(attempt.events) if call.kind == "search" and call.key and not call.error)
        keys.update(bytes.fromhex(call.key) for call in made)
        kinds.update({event.what for event in attempt.events if isinstance(event, Noted)})
    dates = _days(store, keys)
    if not dates:
        return ""
    noted = [words.format(f"{kinds[what]:,}") for what, words in _SAID if kinds[what]]
    said = f" Of its {count:,} attempts, {' and '.join(noted)}." if noted else ""
    return f"{run.id} searched {corpus}, which changes by itself, on {dates} (UTC).{said}"


def _days(store: Store, keys: Iterable[bytes]) -> str:
    """The first and the last day of some calls: ``2026-11-23``, ``2026-11-23 to 2026-11-25``; empty: none is kept."""
    wanted, table, moments = sorted(keys), schema.calls, list[float]()
    with store.engine.connect() as connection:
        for start in range(0, len(wanted), _CHUNK):
            chosen = table.c.key.in_(wanted[start : start + _CHUNK])
            row = connection.execute(sa.select(sa.func.min(table.c.at), sa.func.max(table.c.at)).where(chosen)).one()
            moments += [float(moment) for moment in row if moment is not None]
    if not moments:
        return ""
    days = [datetime.fromtimestamp(moment, UTC).date().isoformat() for moment in (min(moments), max(moments))]
    return " to ".join(dict.fromkeys(days))
