"""Stores as earlier versions made them, from their own SQL."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

STORES = Path(__file__).parent / "stores"
_FIRST = ("meta", "blobs", "calls", "questions", "runs", "attempts", "scores", "arenas", "judgements", "votes")
TABLES = {1: _FIRST, 5: (*_FIRST, "gradings", "stoppings")}
"""The tables of a version, in an order that rows can be written in."""


def old_store(home: Path, version: int, name: str = "store.sqlite", dump: str = "") -> Path:
    """A store of an old version in the folder `home`; `dump` names another of its files than the store itself."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / name
    with sqlite3.connect(path) as connection:
        connection.executescript((STORES / f"version_{version}{dump}.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def old_store_on_postgresql(url: str, scratch: Path, version: int) -> None:
    """The same store's tables and rows in an empty PostgreSQL database."""
    import psycopg

    source = sqlite3.connect(old_store(scratch, version))
    with psycopg.connect(url) as target:
        target.execute((STORES / f"version_{version}.postgresql.sql").read_text(encoding="utf-8"))
        for table in TABLES[version]:
            columns = [row[1] for row in source.execute(f"PRAGMA table_info({table})")]
            rows = source.execute(f"SELECT * FROM {table}").fetchall()
            if rows:
                names, places = (", ".join(f'"{name}"' for name in columns), ", ".join(["%s"] * len(columns)))
                with target.cursor() as cursor:
                    cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", rows)  # type: ignore[arg-type]
        for table in ("runs", "arenas"):
            target.execute(f"SELECT setval('{table}_number_seq', (SELECT max(number) FROM {table}))")
    source.close()


def version_1(home: Path) -> Path:
    """A store of version 1 in the folder `home`."""
    return old_store(home, 1)


def version_1_postgresql(url: str, scratch: Path) -> None:
    """The same store on PostgreSQL."""
    old_store_on_postgresql(url, scratch, 1)


def contents(path: Path) -> list[str]:
    """A SQLite store as SQL statements: tables and rows."""
    connection = sqlite3.connect(path)
    try:
        return [re.sub(r"\s+", " ", line) for line in connection.iterdump()]
    finally:
        connection.close()
