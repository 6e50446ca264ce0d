"""What the systems of runs have read, as the store keeps it: a union over a run's attempts, which only grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import get_args, get_type_hints

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.records import Read, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.store.row_sums import is_whole_row, summed
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store

_KINDS = frozenset(get_args(get_type_hints(Read)["kind"]))


def read_rows(reads: Iterable[Read], number: int) -> list[Row]:
    """The rows of what the run `number` has read. What has no printable name is left out."""
    table = schema.reads
    return [
        (table, summed(table, {"run": number, **{name: getattr(one, name) for name in Read.__struct_fields__}}))
        for one in reads
        if one.name.isprintable() and one.value.isprintable()
    ]


def reads_of(store: Store, run: Run) -> list[Read]:
    """What a run has read, by kind and name.

    Raises:
        DamagedRecord: some of it does not match its checksum.
    """
    table = schema.reads
    with store.engine.connect() as connection:
        mine = sa.select(table).where(table.c.run == store.number(run)).order_by(table.c.kind, table.c.name)
        rows = connection.execute(mine).all()
    if any(row.kind not in _KINDS or not is_whole_row(table, row) for row in rows):
        raise DamagedRecord(f"what {run.id} has read does not match its checksum")
    return [Read(row.kind, row.name, row.value, row.size, row.at) for row in rows]


class RunDifference(Struct, frozen=True):
    """Something in which what two runs depend on differs."""

    kind: str
    """``identity``, or as :attr:`ragrounds.base.records.Read.kind`."""
    name: str
    first: str
    """Empty: the first has no such."""
    second: str


def run_differences(store: Store, first: Run, second: Run) -> list[RunDifference]:
    """In what two runs differ: all that their identities hold, and what their systems have read. What only one of them
    has read is named, too: it may lie in the questions that it was asked."""
    plain = [msgspec.json.decode(msgspec.json.encode(one.identity), type=dict[str, object]) for one in (first, second)]
    names = sorted({*plain[0], *plain[1]} - {"read", "graph_code"})  # what stands behind these is named one by one
    found = [("identity", name, *(_text(one.get(name)) for one in plain)) for name in names]
    held = _compared(store, first, second)
    for kind, name in sorted({*held[0], *held[1]}):
        found.append((kind, name, *(" and ".join(one.get((kind, name), ())) for one in held)))
    return [RunDifference(*one) for one in found if one[2] != one[3]]


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def _compared(store: Store, *runs: Run) -> list[dict[tuple[str, str], list[str]]]:
    """Of each run what runs are compared by: kind and name → the values that it had. A file that the system of one of
    them writes is no part of it, and neither are the models that were asked."""
    reads = [reads_of(store, run) for run in runs]
    written = {one.name for each in reads for one in each if one.kind == "written"}
    held: list[dict[tuple[str, str], list[str]]] = [defaultdict(list) for _ in runs]
    for values, each in zip(held, reads, strict=True):
        for one in each:
            if one.kind not in ("written", "model") and (one.kind != "file" or one.name not in written):
                values[one.kind, one.name].append(one.value)
    return held


def changed_words(store: Store, run: Run) -> str:
    """What was another for some of a run's attempts than for others; empty: nothing was."""
    (held,) = _compared(store, run)
    named = [f"the {kind} {name}" for (kind, name), values in sorted(held.items()) if len(values) > 1]
    said = ", ".join(named[:3]) + (" …" if len(named) > 3 else "")
    return f"{run.id}: {said} changed during the run: its attempts used both versions." if named else ""
