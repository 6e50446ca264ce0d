"""The stored runs of a study's cells: how far they are, and which of them nothing came of."""

from __future__ import annotations

from collections.abc import Collection

from ragrounds.evals.store.store import Store


def attempts_left(store: Store, run_id: str) -> int:
    """How many attempts of a run are still to be made.

    Raises:
        UserError: there is no such run.
    """
    run = store.run(run_id)
    return run.count * run.epochs - len(store.done(run))


def any_attempt(store: Store, run_id: str) -> bool:
    """Whether an attempt of a run was made.

    Raises:
        UserError: there is no such run.
    """
    return bool(store.done(store.run(run_id)))


def remove_unasked(store: Store, ids: Collection[str], since: float) -> set[str]:
    """Remove those of these runs that were begun after a time and that no attempt was made of; gives their ids."""
    empty = [run for run in store.runs() if run.id in ids and run.created >= since and not store.done(run)]
    for run in empty:
        store.remove(run)
    return {run.id for run in empty}
