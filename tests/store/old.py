"""Stores as earlier versions made them, from their own SQL."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

STORES = Path(__file__).parent / "stores"
TABLES = ("meta", "blobs", "calls", "questions", "runs", "attempts", "scores", "arenas", "judgements", "votes")
"""Of version 1, in an order that rows can be written in."""


def version_1(home: Path) -> Path:
    """A store of version 1 in the folder `home`."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "store.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript((STORES / "version_1.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def version_1_postgresql(url: str, scratch: Path) -> None:
    """The same store's tables and rows in an empty PostgreSQL database."""
    import psycopg

    source = sqlite3.connect(version_1(scratch))
    with psycopg.connect(url) as target:
        target.execute((STORES / "version_1.postgresql.sql").read_text(encoding="utf-8"))
        for table in TABLES:
            rows = source.execute(f"SELECT * FROM {table}").fetchall()
            if rows:
                with target.cursor() as cursor:
                    places = ", ".join(["%s"] * len(rows[0]))
                    cursor.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # type: ignore[arg-type]
        for table in ("runs", "arenas"):
            target.execute(f"SELECT setval('{table}_number_seq', (SELECT max(number) FROM {table}))")
    source.close()


def contents(path: Path) -> list[str]:
    """A SQLite store as SQL statements: tables and rows."""
    connection = sqlite3.connect(path)
    try:
        return [re.sub(r"\s+", " ", line) for line in connection.iterdump()]
    finally:
        connection.close()
