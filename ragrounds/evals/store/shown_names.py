"""What runs are called in tables and pictures, kept beside them: a name is no part of what a run is.

Neither a fingerprint nor the journal knows of it, so another name asks nobody again. It stands in the table ``meta``.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import sqlalchemy as sa

from ragrounds.evals.store.database import insert_new, upsert
from ragrounds.evals.store.schema import RUN_NAME, meta

LONGEST_NAME = 120
"""Characters of a name."""


def one_name(text: str) -> str:
    """A name as it is kept and shown: in one line, of at most `LONGEST_NAME` characters."""
    return " ".join(text.split())[:LONGEST_NAME]


def keep_names(engine: sa.Engine, names: Mapping[str, str]) -> None:
    """Keep what runs are called.

    Args:
        engine: of the store.
        names: run id → name; an empty one takes the name away.
    """
    kept = [{"key": f"{RUN_NAME}{run}", "value": name} for run, text in names.items() if (name := one_name(text))]
    gone = [f"{RUN_NAME}{run}" for run, text in names.items() if not one_name(text)]
    with engine.begin() as connection:
        if kept:
            connection.execute(upsert(engine, meta), kept)
        if gone:
            connection.execute(sa.delete(meta).where(meta.c.key.in_(gone)))


def kept_names(engine: sa.Engine) -> dict[str, str]:
    """Run id → name, of the runs of a store that have one."""
    wanted = sa.select(meta.c.key, meta.c.value).where(meta.c.key.startswith(RUN_NAME))
    with engine.connect() as connection:
        rows = connection.execute(wanted).all()
    names = {str(key).removeprefix(RUN_NAME): one_name(str(value)) for key, value in rows}
    return {run: name for run, name in names.items() if name}


def copy_names(source: sa.Engine, target: sa.Engine, runs: Container[str]) -> None:
    """Copy what these runs are called into another store; a run that has a name there keeps it."""
    rows = [{"key": f"{RUN_NAME}{run}", "value": name} for run, name in kept_names(source).items() if run in runs]
    if rows:
        with target.begin() as connection:
            connection.execute(insert_new(target, meta), rows)
