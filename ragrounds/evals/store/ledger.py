"""The ledger: what runs, and the judging of their answers, cost; by role, graph node and model.

Two accounts. *Paid* is what was really paid: a call that the journal answered costs nothing. *Uncached* is what the
same would cost with an empty journal. A sum with an unpriced call in it is unknown, never the sum of the rest.

All of it is read from the store. Of an attempt's events only the few fields of its calls that count here are decoded.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import UNANSWERED, Run, Status, Usage
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.care.garbage import Marks
from ragrounds.evals.store.codec import decompress
from ragrounds.evals.store.database import snapshot, stream
from ragrounds.evals.store.store import Store

LedgerKey = Literal["run", "role", "node", "model"]
LEDGER_KEYS: tuple[LedgerKey, ...] = ("run", "role", "node", "model")
JUDGING = "judging"
"""The role of judges' calls."""


class LedgerLine(Struct, frozen=True, kw_only=True):
    """What the calls that have these names in common cost; what the ledger is not split by is empty."""

    run: str = ""
    """A run's id, or an arena's."""
    role: str = ""
    node: str = ""
    model: str = ""
    """Canonical text of the model, or of the searcher."""
    model_calls: int = 0
    reused: int = 0
    """Of the model calls, answered from the journal."""
    failed: int = 0
    """Of the model calls, without a reply: nothing is known of what they cost, and nothing is counted."""
    searches: int = 0
    """Searches, and uses of other tools."""
    unanswered: int = 0
    """Requests of these that got no answer that could be read: a provider may bill them, so costs are at least."""
    usage: Usage | None = Usage()
    """Tokens, those of reused calls too; ``None``: not known of all calls."""
    cost_paid: float | None = 0.0
    cost_uncached: float | None = 0.0
    unpriced: int = 0
    """Calls whose price is not known: where there are any, `cost_uncached` is not known."""
    known: float = 0.0
    """Uncached cost of the calls whose price is known."""


class Ledger(Struct, frozen=True, kw_only=True):
    """Costs, split as asked, the dearest first, and their sum."""

    by: tuple[LedgerKey, ...]
    lines: tuple[LedgerLine, ...]
    total: LedgerLine


def ledger(
    store: Store, runs: Sequence[Run], by: Sequence[LedgerKey] = LEDGER_KEYS[1:], *, arenas: bool = False
) -> Ledger:
    """What some runs cost, and the judging of their answers; with `arenas` also all arenas of the store.

    An arena's judgements are of pairs, so they are no single run's.

    Raises:
        UserError: `by` names something twice.
    """
    if len(set(by)) < len(by):
        raise UserError(f"The ledger cannot be split by the same twice: {', '.join(by)}.")
    sums: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    total = Counter[str]()
    for of, call in itertools.chain(*(_calls(store, run) for run in runs), _arenas(store) if arenas else ()):
        named = {"run": of, "role": call.role, "node": call.node, "model": call.actor}
        figures = _figures(call)
        for one in (sums[tuple(named[key] for key in by)], total):
            one.update(figures)
    lines = [_line(figures, **dict(zip(by, names, strict=True))) for names, figures in sums.items()]
    lines.sort(
        key=lambda line: (-line.known, -line.model_calls, -line.searches, line.run, line.role, line.node, line.model)
    )
    return Ledger(by=tuple(by), lines=tuple(lines), total=_line(total))


class Unfinished(Struct, frozen=True, kw_only=True):
    """Recorded calls of attempts that were broken off: paid, and in no sum until the same command resumes them."""

    calls: int
    usage: Usage | None
    """``None``: not known of all of them."""


def unfinished(store: Store, runs: Sequence[Run]) -> Unfinished:
    """The calls that attempts of these runs have paid for, and of which nothing else is written."""
    open_ = [run for run in runs if len(store.done(run)) < run.count * run.epochs]
    count, usage = 0, [Usage()]
    if not open_:
        return Unfinished(calls=0, usage=Usage())
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
            count += 1
            used = msgspec.msgpack.decode(decompress(row.response), type=_Reply, ext_hook=_long_text).usage
            usage = [usage[0] + used] if usage and used is not None else []
        marks.drop()
    return Unfinished(calls=count, usage=usage[0] if usage else None)


class _Fault(Struct):
    kind: Any = ""


class _Call(Struct):
    """What the ledger needs of a call; msgspec passes over the rest. A text that
    is stored apart is no text to msgspec, so these are of any type."""

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
    """How many calls this is the sum of."""
    paid: tuple[float | None] | None = None
    """What was paid, where `cached` does not tell."""


class _Reply(Struct):
    usage: Usage | None = None


class _Event(Struct):
    """An event of an attempt: of those that are no calls nothing counts."""

    call: _Call | None = None


class _Body(Struct):
    events: list[_Event]


def _long_text(code: int, data: memoryview) -> str:
    """A stand-in for a text that is stored apart."""
    return "(long)"


_attempts = msgspec.msgpack.Decoder(_Body, ext_hook=_long_text)
_gradings = msgspec.msgpack.Decoder(_Call, ext_hook=_long_text)


def _calls(store: Store, run: Run) -> Iterator[tuple[str, _Call]]:
    """All calls of a run's attempts, and of the judges of their answers."""
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
    """The calls of the judges of a run's answers."""
    for table in (schema.gradings, schema.regradings):
        for row in stream(connection, sa.select(table.c.body).where(table.c.run == number), 500):
            yield _gradings.decode(decompress(row.body))


def judging_of(store: Store, runs: Sequence[Run]) -> dict[str, LedgerLine]:
    """Run id → what judging its answers took, of those of the runs that were judged."""
    by_number = {store.number(run): run.id for run in runs}
    found: dict[str, LedgerLine] = {}
    with snapshot(store.engine) as connection:
        judged = set(connection.execute(sa.select(schema.gradings.c.run).distinct()).scalars())
        for number in sorted(judged & set(by_number)):
            figures = Counter[str]()
            for call in _judging(connection, number):
                figures.update(_figures(call))
            found[by_number[number]] = _line(figures, run=by_number[number], role=JUDGING)
    return found


def _arenas(store: Store) -> Iterator[tuple[str, _Call]]:
    """The calls of all arenas' judges; of an imported judgement, without its calls, what they come to together."""
    kept = ArenaStore(store)
    for arena in kept.arenas():
        for judged, detail in kept.details(kept.add(arena)):
            what = (JUDGING, "arena", arena.judges[judged.judge])
            for one in detail.calls:
                yield arena.id, _Call(*what, one.cached, one.usage, one.cost_uncached, one.error)
            if judged.calls and not detail.calls:
                cached, paid = judged.cost_paid == 0 and judged.cost_uncached != 0, (judged.cost_paid,)
                call = _Call(*what, cached, judged.usage, judged.cost_uncached, times=judged.calls, paid=paid)
                yield arena.id, call


_TOKENS = Usage.__struct_fields__
_UNIT = 2.0**100
"""Of a dollar. Costs are added as whole numbers of these: the sum is the same in whatever order a database has them."""


def _figures(call: _Call) -> dict[str, float]:
    """What a call adds to the sums; `unpaid` and `uncounted` say of how many calls cost and tokens are not known. One
    without a reply is only counted."""
    unanswered = sum(fault.kind in UNANSWERED for fault in call.faults) if call.kind == "model" else 0
    asked = call.times if call.kind == "model" else 0
    found: dict[str, float] = {"model_calls": asked, "searches": call.times - asked, "unanswered": unanswered}
    if call.error:
        return found | {"failed": asked}
    if call.cached:
        found["reused"] = asked
    if call.usage is not None:
        found |= {name: getattr(call.usage, name) for name in _TOKENS}
    elif call.kind == "model":
        found["uncounted"] = call.times
    (paid,) = call.paid or (0.0 if call.cached else call.cost_uncached,)
    for name, unknown, cost in (("known", "unpriced", call.cost_uncached), ("paid", "unpaid", paid)):
        found |= {unknown: call.times} if cost is None else {name: int(cost * _UNIT)}
    return found


def _line(figures: Counter[str], run: str = "", role: str = "", node: str = "", model: str = "") -> LedgerLine:
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
        usage=None if figures["uncounted"] else Usage(*(figures[name] for name in _TOKENS)),
        cost_paid=None if figures["unpaid"] else figures["paid"] / _UNIT,
        cost_uncached=None if figures["unpriced"] else figures["known"] / _UNIT,
        unpriced=figures["unpriced"],
        known=figures["known"] / _UNIT,
    )
