"""What of a run is in no journal, in words: it stands beside the run's figures, and no replay can answer it."""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa

from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from ragrounds.records import Noted, Run

_LOOKED_AT = 20
"""Attempts that are read for what it was."""
_NAMED = 3


def unrecorded_words(store: Store, run: Run) -> str:
    """How many calls of a run are not recorded, and what they were; empty: all are, or none was seen to be missing."""
    if not (what := _unrecorded(store, run)):
        return ""
    return (
        f"{run.id}: {what}: what they cost may be missing here, they are made again where the run is, and "
        "--journal replay refuses it."
    )


def _unrecorded(store: Store, run: Run) -> str:
    table = schema.attempts
    of_run = sa.and_(table.c.run == store.number(run), table.c.unrecorded > 0)
    with store.engine.connect() as connection:
        counted = sa.select(sa.func.count(), sa.func.sum(table.c.unrecorded)).where(of_run)
        attempts, calls = connection.execute(counted).one()
        if not attempts:
            return ""
        some = sa.select(table.c.question_id, table.c.epoch).where(of_run).limit(_LOOKED_AT)
        keys = [(row.question_id, row.epoch) for row in connection.execute(some)]
    kinds: Counter[str] = Counter()
    for question_id, epoch in keys:
        attempt = store.attempt(run, question_id, epoch)
        events = attempt.events if attempt else ()
        kinds.update(event.text for event in events if isinstance(event, Noted) and event.what == "not_recorded")
    what = ", ".join(name for name, _ in kinds.most_common(_NAMED)) + (" …" if len(kinds) > _NAMED else "")
    return f"{calls:,} calls of {attempts:,} attempts are not recorded ({what})"


def check_replayable(store: Store, run: Run) -> None:
    """Check that a replay can answer all that runs of this agent and this code asked.

    Raises:
        UserError: calls of it are in no journal.
    """
    for before in store.runs():
        same = (before.agent, before.identity.get("graph_code")) == (run.agent, run.identity.get("graph_code"))
        if same and (what := _unrecorded(store, before)):
            remedy = (
                'List their addresses under `record = ["https://…"]` in the agent\'s file '
                "(docs/concepts/recording.md), "
                "and run once more without --journal replay (docs/concepts/recording.md)."
                if " http" in what
                else "Without --journal replay they are made again."
            )
            raise UserError(f"{run.agent} cannot be replayed: in {before.id} {what}. {remedy}")
