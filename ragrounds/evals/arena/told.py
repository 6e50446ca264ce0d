"""What judges said of one answer, in every arena that it played in: read for the trace of an attempt."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.keeping import Detail
from ragrounds.evals.store import schema
from ragrounds.evals.store.packing import decompress, unpack
from ragrounds.evals.store.store import Store
from ragrounds.records import Call

Said = Literal["won", "lost", "tie", "unreadable", "failed"]
_LETTERS: dict[str, Said] = {"1": "won", "2": "lost", "=": "tie", "?": "unreadable", "!": "failed"}
_TURNED: dict[Said, Said] = {"won": "lost", "lost": "won"}


class Told(Struct, frozen=True, kw_only=True):
    """One judgement, from the point of view of one of its answers."""

    arena: str
    judge: str
    against: str
    """The other system's name."""
    shown: Literal["first", "second"]
    """Where this answer stood in the judge's prompt."""
    how: str
    axes: dict[str, Said]
    """Axis → what became of this answer."""
    reasons: dict[str, str]
    calls: tuple[Call, ...]


def told(store: Store, run: str, question_id: str, epoch: int = 0) -> list[Told]:
    """Judgements of a run's answer to a question; none where no arena was played."""
    found: list[Told] = []
    with store.engine.connect() as connection:
        arenas = connection.execute(sa.select(schema.arenas.c.number, schema.arenas.c.body)).all()
        for number, body in arenas:
            arena: Arena = msgspec.msgpack.decode(decompress(body), type=Arena)
            places = [place for place, system in enumerate(arena.systems) if system.run == run]
            if places and arena.epoch == epoch:
                for row in connection.execute(_of(number, len(arena.judges), question_id, places[0])):
                    found.append(_told(store, arena, places[0], row))
    return found


def _of(arena: int, judges: int, question_id: str, place: int) -> sa.Select[Any]:
    table = schema.judgements
    return (
        sa.select(table)
        .where(
            table.c.arena == arena,
            table.c.judge.in_(range(judges)),  # named, so that the key finds the question without a pass over all
            table.c.question_id == question_id,
            sa.or_(table.c.first == place, table.c.second == place),
        )
        .order_by(table.c.number, table.c.judge)
    )


def _told(store: Store, arena: Arena, place: int, row: Any) -> Told:
    first = row.first == place
    detail = unpack(row.body, Detail, store.texts)
    axes = zip(arena.parts[row.part], row.outcomes, strict=False)
    return Told(
        arena=arena.id,
        judge=arena.judges[row.judge],
        against=arena.names[row.second if first else row.first],
        shown="first" if first else "second",
        how=row.how,
        axes={axis.name: _said(letter, first) for axis, letter in axes},
        reasons=detail.reasons,
        calls=detail.calls,
    )


def _said(letter: str, first: bool) -> Said:
    said = _LETTERS.get(letter, "unreadable")
    return said if first else _TURNED.get(said, said)
