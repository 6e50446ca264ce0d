"""What will not be asked again: the journal's calls, and those that a killed process had noted on their way there."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select

from ragrounds.evals.store import schema
from ragrounds.evals.store.journal import _read
from ragrounds.evals.store.store import Store


def known_calls(home: Path, actor: str = "") -> set[str]:
    """Keys (hexadecimal) of the calls made by actors whose text holds `actor`, and of all that had arrived."""
    with Store(home) as store, store.engine.connect() as connection:
        named = select(schema.calls.c.key).where(schema.calls.c.actor.contains(actor))
        keys = {bytes(key).hex() for key in connection.execute(named).scalars()}
    return keys | {arrived.key for file in (home / "arrivals").rglob("*@*") for arrived in _read(file)}
