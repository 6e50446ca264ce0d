"""Ledger: the cost of runs and of judging their answers, by role, graph node and model.

There are two accounts. *Paid* is the amount really paid: a call that the journal answered costs nothing. *Uncached* is
the cost with an empty journal. A sum with an unpriced call in it is unknown, never the sum of the rest.

Everything is read from the store. Of an attempt's events only the few fields of calls that the ledger needs are
decoded.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import UNANSWERED, Run, Status
from ragrounds.base.spent import Spent, Usage
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.care.garbage import Marks
from ragrounds.evals.store.codec import decompress
from ragrounds.evals.store.database import snapshot, stream
from ragrounds.evals.store.row_sums import meta_value, summed_meta
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store
from ragrounds.version import __version__

LedgerKey = Literal["run", "role", "node", "model"]
LEDGER_KEYS: tuple[LedgerKey, ...] = ("run", "role", "node", "model")
JUDGING = "judging"
"""Role of judges' calls."""


class LedgerLine(Struct, frozen=True, kw_only=True):
    """Cost of the calls that have these names in common. Names by which the ledger is not split are empty."""

    run: str = ""
    """Id of the run or arena."""
    role: str = ""
    node: str = ""
    model: str = ""
    """Canonical text of the model, or of the searcher."""
    model_calls: int = 0
    reused: int = 0
    """Number of model calls that were answered from the journal."""
    failed: int = 0
    """Number of model calls without a reply: their cost is not known, and not counted."""
    searches: int = 0
    """Number of searches, and uses of other tools."""
    unanswered: int = 0
    """Number of requests without a readable answer: a provider may bill them, so costs are lower bounds."""
    usage: Usage | None = Usage()
    """Tokens, including those of reused calls; ``None`` if not known of all calls."""
    cost_paid: float | None = 0.0
    cost_uncached: float | None = 0.0
    unpriced: int = 0
    """Number of calls whose price is not known: if there are any, `cost_uncached` is not known."""
    known: float = 0.0
    """Uncached cost of the calls whose price is known."""


class Ledger(Struct, frozen=True, kw_only=True):
    """Costs, split as requested, the most expensive first, and their sum."""

    by: tuple[LedgerKey, ...]
    lines: tuple[LedgerLine, ...]
    total: LedgerLine


def ledger(
    store: Store, runs: Sequence[Run], group_keys: Sequence[LedgerKey] = LEDGER_KEYS[1:], *, arenas: bool = False
) -> Ledger:
    """Return the cost of some runs, and of judging their answers; with `arenas` also of all arenas of the store.

    An arena's judgements are of pairs, so they do not belong to a single run.

    Raises:
        UserError: `group_keys` names something twice.
    """
    if len(set(group_keys)) < len(group_keys):
        raise UserError(f"The ledger cannot be split by the same twice: {', '.join(group_keys)}.")
    sums: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    total = Counter[str]()
    for owner_id, call in itertools.chain(*(_calls(store, run) for run in runs), _arenas(store) if arenas else ()):
        names_of_call = {"run": owner_id, "role": call.role, "node": call.node, "model": call.actor}
        figures = _figures(call)
        for counter in (sums[tuple(names_of_call[key] for key in group_keys)], total):
            counter.update(figures)
    lines = [_line(figures, **dict(zip(group_keys, names, strict=True))) for names, figures in sums.items()]
    lines.sort(
        key=lambda line: (-line.known, -line.model_calls, -line.searches, line.run, line.role, line.node, line.model)
    )
    return Ledger(by=tuple(group_keys), lines=tuple(lines), total=_line(total))


def unfinished(store: Store, runs: Sequence[Run]) -> Spent:
    """Return the calls and tokens that interrupted attempts of these runs have paid for. They are in no sum until the
    same command resumes the attempts.
    """
    open_ = [run for run in runs if len(store.done(run)) < run.count * run.epochs]
    spent = Spent(cost_paid=None, cost_uncached=None)  # a recorded reply has no price
    if not open_:
        return Spent()
    calls, recalls = schema.calls, schema.recalls
    with snapshot(store.engine) as connection:
        marks = Marks(connection)
        for run in open_:
            marks.attempts_to_come(store.number(run), run, get_args(Status))
        marks.flush()
        paid = sa.select(calls.c.response).join(marks.payers, calls.c.payer == marks.payers.c.mark)
        fresh = sa.select(recalls.c.response).join(marks.payers, recalls.c.payer == marks.payers.c.mark)
        first = sa.exists().where(calls.c.key == recalls.c.key, calls.c.payer == recalls.c.payer)
        again = stream(connection, fresh.where(~first), 500)
        for row in itertools.chain(stream(connection, paid.where(calls.c.kind == "model"), 500), again):
            reply = msgspec.msgpack.decode(decompress(row.response), type=_Reply, ext_hook=_long_text)
            spent += Spent(calls=1, usage=reply.usage)
        marks.drop()
    return spent


class _Fault(Struct):
    kind: Any = ""


class _Call(Struct):
    """Fields of a call that the ledger needs; msgspec skips the rest.

    A text that is stored separately is no text to msgspec, so the text fields are of any type.
    """

    role: Any
    node: Any
    actor: Any
    cached: bool = False
    usage: Usage | None = None
    cost_uncached: float | None = None
    error: Any = ""
    kind: str = "model"
    faults: tuple[_Fault, ...] = ()
    times: int = 1
    """Number of calls of which this is the sum."""
    paid: tuple[float | None] | None = None
    """Amount paid, if `cached` does not determine it."""


class _Reply(Struct):
    usage: Usage | None = None


class _Event(Struct):
    """Event of an attempt; events that are no calls are not counted."""

    call: _Call | None = None


class _Body(Struct):
    events: list[_Event]


def _long_text(code: int, data: memoryview) -> str:
    """Return a placeholder for a text that is stored separately."""
    return "(long)"


_attempts = msgspec.msgpack.Decoder(_Body, ext_hook=_long_text)
_gradings = msgspec.msgpack.Decoder(_Call, ext_hook=_long_text)


def _calls(store: Store, run: Run) -> Iterator[tuple[str, _Call]]:
    """Yield all calls of a run's attempts, and of the judges of their answers."""
    number = store.number(run)
    bodies = sa.select(schema.attempts.c.body).where(schema.attempts.c.run == number)
    with snapshot(store.engine) as connection:
        for row in stream(connection, bodies, 500):
            for event in _attempts.decode(decompress(row.body)).events:
                if event.call is not None:
                    yield run.id, event.call
        for call in _judging(connection, number):
            yield run.id, call


def _judging(connection: sa.Connection, number: int) -> Iterator[_Call]:
    """Yield the calls of the judges of a run's answers."""
    for table in (schema.gradings, schema.regradings):
        for row in stream(connection, sa.select(table.c.body).where(table.c.run == number), 500):
            yield _gradings.decode(decompress(row.body))


def judging_of(store: Store, runs: Sequence[Run]) -> dict[str, LedgerLine]:
    """Map run ids to the cost of judging their answers, for the runs that were judged.

    Decoding takes 25 µs a call, so the sums that :func:`store_judging_sums` wrote are used if the calls are the same.
    """
    by_number = {store.number(run): run.id for run in runs}
    lines: dict[str, LedgerLine] = {}
    with snapshot(store.engine) as connection:
        judged_numbers = set(connection.execute(sa.select(schema.gradings.c.run).distinct()).scalars())
        for number in sorted(judged_numbers & set(by_number)):
            key = f"{schema.JUDGING_SUMS}{by_number[number]}"
            value = connection.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar()
            stored = json.loads(meta_value(key, value or "") or "{}")
            is_current = stored.get("calls") == _judging_digest(connection, number)
            figures = Counter[str](stored["figures"]) if is_current else _judging_sums(connection, number)
            lines[by_number[number]] = _line(figures, run=by_number[number], role=JUDGING)
    return lines


def store_judging_sums(store: Store, runs: Sequence[Run]) -> None:
    """Write the sums of all calls of some runs' judges, for a command that has changed them.

    Raises:
        StopRun: the store cannot be written.
    """
    rows: list[Row] = []
    with snapshot(store.engine) as connection:
        for run in runs:
            number = store.number(run)
            if figures := _judging_sums(connection, number):
                sums = {"calls": _judging_digest(connection, number), "figures": figures}
                rows.append((schema.meta, summed_meta(f"{schema.JUDGING_SUMS}{run.id}", json.dumps(sums))))
    if rows:
        store.add_rows(rows)


def _judging_sums(connection: sa.Connection, number: int) -> Counter[str]:
    figures = Counter[str]()
    for call in _judging(connection, number):
        figures.update(_figures(call))
    return figures


def _judging_digest(connection: sa.Connection, number: int) -> str:
    """Return the digest of the calls of a run's judges, and of the version that sums them."""
    digest = hashlib.sha256(__version__.encode())
    for table in (schema.gradings, schema.regradings):
        checksums = sa.select(table.c.checksum).where(table.c.run == number).order_by(*table.primary_key.columns)
        digest.update(b"".join(map(bytes, connection.execute(checksums).scalars().all())))
    return digest.hexdigest()


def _arenas(store: Store) -> Iterator[tuple[str, _Call]]:
    """Yield the calls of all arenas' judges; for an imported judgement, which has no calls, their sum."""
    arena_store = ArenaStore(store)
    for arena in arena_store.arenas():
        for judgement, detail in arena_store.details(arena_store.add(arena)):
            names = (JUDGING, "arena", arena.judges[judgement.judge])
            for judge_call in detail.calls:
                yield (
                    arena.id,
                    _Call(*names, judge_call.cached, judge_call.usage, judge_call.cost_uncached, judge_call.error),
                )
            if judgement.calls and not detail.calls:
                cached, paid = judgement.cost_paid == 0 and judgement.cost_uncached != 0, (judgement.cost_paid,)
                call = _Call(*names, cached, judgement.usage, judgement.cost_uncached, times=judgement.calls, paid=paid)
                yield arena.id, call


_TOKENS = Usage.__struct_fields__
_UNIT = 2.0**100
"""Fraction of a dollar. Costs are added as integers of this unit, so that the sum does not depend on the order of rows
in a database.
"""


def _figures(call: _Call) -> dict[str, float]:
    """Return the contribution of a call to the sums, which stores keep for judges' calls (`_judging_digest`).

    `unpaid` and `uncounted` count the calls whose cost and tokens are not known. A call without a reply is only
    counted, unless a server counted the tokens of its tries.
    """
    unanswered = sum(fault.kind in UNANSWERED for fault in call.faults) if call.kind == "model" else 0
    n_model_calls = call.times if call.kind == "model" else 0
    figures: dict[str, float] = {
        "model_calls": n_model_calls,
        "searches": call.times - n_model_calls,
        "unanswered": unanswered,
    }
    if call.error:
        figures["failed"] = n_model_calls
        if call.usage is None or call.usage == Usage():
            return figures
    if call.cached:
        figures["reused"] = n_model_calls
    if call.usage is not None:
        figures |= {name: getattr(call.usage, name) for name in _TOKENS}
    elif call.kind == "model":
        figures["uncounted"] = call.times
    (paid,) = call.paid or (0.0 if call.cached else call.cost_uncached,)
    for name, unknown, cost in (("known", "unpriced", call.cost_uncached), ("paid", "unpaid", paid)):
        figures |= {unknown: call.times} if cost is None else {name: int(cost * _UNIT)}
    return figures


def _line(figures: Counter[str], run: str = "", role: str = "", node: str = "", model: str = "") -> LedgerLine:
    # As in Spent.without_answer: without any reply there are no tokens to price, and requests that no server answered
    # may be billed.
    is_empty = not any(figures[name] for name in (*_TOKENS, "paid", "known"))
    may_be_billed = is_empty and figures["unanswered"]
    is_unknown = may_be_billed or (is_empty and 0 < figures["model_calls"] == figures["failed"])
    return LedgerLine(
        run=run,
        role=role,
        node=node,
        model=model,
        model_calls=figures["model_calls"],
        reused=figures["reused"],
        failed=figures["failed"],
        searches=figures["searches"],
        unanswered=figures["unanswered"],
        usage=None if figures["uncounted"] or is_unknown else Usage(*(figures[name] for name in _TOKENS)),
        cost_paid=None if figures["unpaid"] or may_be_billed else figures["paid"] / _UNIT,
        cost_uncached=None if figures["unpriced"] or is_unknown else figures["known"] / _UNIT,
        unpriced=figures["unpriced"],
        known=figures["known"] / _UNIT,
    )
