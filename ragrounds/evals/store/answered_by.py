"""Which models replies say they come from, counted for each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.servers import fingerprint_in, known_servers
from ragrounds.evals.store.store import Store
from ragrounds.models.model_names import SERVED, other_models
from ragrounds.models.options import server_of
from ragrounds.records import Run

AnsweredBy = Mapping[str, Mapping[str, int]]
"""The model asked, as its canonical text → the name in replies → in how many calls."""


def answered_by(store: Store, runs: Sequence[Run]) -> dict[str, AnsweredBy]:
    """Run id → which models the replies of its attempts name."""
    table, numbered = schema.attempts, schema.runs
    statement = (
        sa.select(numbered.c.id, table.c.models, sa.func.count())
        .join(numbered, numbered.c.number == table.c.run)
        .where(numbered.c.id.in_([run.id for run in runs]), table.c.models.is_not(None))
        .group_by(numbered.c.id, table.c.models)
    )
    found: dict[str, dict[str, Counter[str]]] = {run.id: {} for run in runs}
    with store.engine.connect() as connection:
        for run, models, attempts in connection.execute(statement):
            for asked, name, calls in msgspec.json.decode(models, type=list[tuple[str, str, int]]):
                found[run].setdefault(asked, Counter())[name] += calls * attempts
    return {run: {asked: dict(names) for asked, names in counts.items()} for run, counts in found.items()}


def said_of_models(store: Store, run: Run, answered: AnsweredBy) -> list[str]:
    """What is to be said of a run whose replies name other models than were asked, or several."""
    if not other_models(answered):
        return []
    facts = {asked: _facts(store, run, server_of(asked)) for asked in answered}
    return other_models(
        answered, {asked: [told[name] for name in SERVED if name in told] for asked, told in facts.items()}
    )


def _facts(store: Store, run: Run, server: str) -> Mapping[str, str]:
    """What a run's server told when it began, or, of a run that is older than this is asked, at another time."""
    if server in run.servers:
        return run.servers[server]
    mark = fingerprint_in(run, server)
    return next((one.facts for one in known_servers(store.engine, server) if one.fingerprint == mark), {})
