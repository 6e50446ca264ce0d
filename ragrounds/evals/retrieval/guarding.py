"""The leak guard of `ragrounds retrieve`: which results each query may not have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ragrounds.errors import UserError
from ragrounds.evals.retrieval.running import Keep
from ragrounds.records import Passage
from ragrounds.tools.guarding import Guard
from ragrounds.tools.lines import read_rows


class _Row(msgspec.Struct):
    query: str | int
    documents: list[str | int]


def read_guard(path: Path) -> dict[str, frozenset[str]]:
    """Read JSON Lines ``{"query": id, "documents": [id, …]}``.

    Raises:
        UserError: no such file, or a line that is not of that form.
    """
    forbidden: dict[str, frozenset[str]] = {}
    for _, row in read_rows(path, _Row, "{query, documents}"):
        query = str(row.query)
        forbidden[query] = forbidden.get(query, frozenset()) | frozenset(map(str, row.documents))
    return forbidden


def guarding(queries: Mapping[str, str], path: Path | None, near: float | None) -> Keep | None:
    """The filter for a set of queries; ``None`` where nothing is asked for.

    Args:
        queries: Id → text.
        path: A file of documents that a query may not find.
        near: Share of a query's own wording at which a passage is left out.

    Raises:
        UserError: the file cannot be read, or names a query that is not in the set.
    """
    if path is None and near is None:
        return None
    forbidden = read_guard(path) if path else {}
    strange = sorted(forbidden.keys() - queries.keys())
    if strange:
        raise UserError(f"{str(path)!r} guards {len(strange)} queries that are not in the set, such as {strange[0]!r}.")
    guards = {
        query: Guard(forbidden.get(query, frozenset()), "" if near is None else text, 1.0 if near is None else near)
        for query, text in queries.items()
    }

    def keep(query: str, passage: Passage) -> bool:
        return guards[query].keeps(passage)

    return keep
