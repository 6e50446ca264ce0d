"""Dependencies of the systems of runs in the store: a union over a run's attempts, which only grows."""

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
from ragrounds.evals.store.database import fetch_rows
from ragrounds.evals.store.row_sums import is_whole_row, summed
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store

_KINDS = frozenset(get_args(get_type_hints(Read)["kind"]))
_READS = (
    sa.select(schema.reads)
    .where(schema.reads.c.run == sa.bindparam("run"))
    .order_by(schema.reads.c.kind, schema.reads.c.name)
)


def read_rows(reads: Iterable[Read], number: int) -> list[Row]:
    """Return the rows of the dependencies of the run `number`. Dependencies without a printable name are left out."""
    table = schema.reads
    return [
        (table, summed(table, {"run": number, **{name: getattr(dependency, name) for name in Read.__struct_fields__}}))
        for dependency in reads
        if dependency.name.isprintable() and dependency.value.isprintable()
    ]


def reads_of(store: Store, run: Run) -> list[Read]:
    """Return the dependencies of a run, by kind and name.

    Raises:
        DamagedRecord: some of them do not match their checksums.
    """
    table = schema.reads
    rows = fetch_rows(store.engine, _READS, run=store.number(run))
    if any(row.kind not in _KINDS or not is_whole_row(table, row) for row in rows):
        raise DamagedRecord(f"what {run.id} has read does not match its checksum")
    return [Read(row.kind, row.name, row.value, row.size, row.at) for row in rows]


class RunDifference(Struct, frozen=True):
    """Difference between the dependencies of two runs."""

    kind: str
    """Kind: ``identity``, or as :attr:`ragrounds.base.records.Read.kind`."""
    name: str
    first: str
    """Value in the first run; empty if it has none."""
    second: str


def run_differences(store: Store, first: Run, second: Run) -> list[RunDifference]:
    """Return the differences between two runs: in their identities, and in the dependencies of their systems.

    Dependencies of only one of them are included, too: the cause may be in the questions that it was asked.
    """
    identities = [
        msgspec.json.decode(msgspec.json.encode(run.identity), type=dict[str, object]) for run in (first, second)
    ]
    names = sorted({*identities[0], *identities[1]} - {"read", "graph_code"})  # their contents are compared separately
    entries = [("identity", name, *(_text(identity.get(name)) for identity in identities)) for name in names]
    dependencies = _compared_values(store, first, second)
    for kind, name in sorted({*dependencies[0], *dependencies[1]}):
        entries.append((kind, name, *(" and ".join(values.get((kind, name), ())) for values in dependencies)))
    return [RunDifference(*entry) for entry in entries if entry[2] != entry[3]]


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def _compared_values(store: Store, *runs: Run) -> list[dict[tuple[str, str], list[str]]]:
    """Return the values by which runs are compared, for each run: kind and name → the values that it had.

    Files that the system of one of them writes are excluded, and so are the models that were called.
    """
    reads = [reads_of(store, run) for run in runs]
    written_files = {
        dependency.name for dependencies in reads for dependency in dependencies if dependency.kind == "written"
    }
    values_by_run: list[dict[tuple[str, str], list[str]]] = [defaultdict(list) for _ in runs]
    for values, dependencies in zip(values_by_run, reads, strict=True):
        for dependency in dependencies:
            if dependency.kind not in ("written", "model") and (
                dependency.kind != "file" or dependency.name not in written_files
            ):
                values[dependency.kind, dependency.name].append(dependency.value)
    return values_by_run


def changed_words(store: Store, run: Run) -> str:
    """Describe the dependencies that changed between a run's attempts; empty if none did."""
    (values_by_name,) = _compared_values(store, run)
    changed = [f"the {kind} {name}" for (kind, name), values in sorted(values_by_name.items()) if len(values) > 1]
    changed_text = ", ".join(changed[:3]) + (" …" if len(changed) > 3 else "")
    return f"{run.id}: {changed_text} changed during the run: its attempts used both versions." if changed else ""
