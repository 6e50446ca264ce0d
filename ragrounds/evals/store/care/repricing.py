"""Cost of calls by prices that are set after the calls were made (`ragrounds ledger --reprice`).

A call's record has its tokens, and the journal has the seconds that its server was busy with it, so a later price can
be applied to it. The price is written into everything that contains the call: attempts, the calls of judges, the
judgements of arenas. If tokens are not known, their cost stays unknown too; no call is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.contracts import Used
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run, Usage
from ragrounds.base.specs import parse
from ragrounds.base.spent import known_sum
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.codec import compress, decompress
from ragrounds.evals.store.database import exclusive_transaction, fetch_rows, writing_failed
from ragrounds.evals.store.ledger import store_judging_sums
from ragrounds.evals.store.row_sums import summed
from ragrounds.evals.store.store import Store
from ragrounds.models.options import STARTED, read_options
from ragrounds.models.prices import Price, listed_price, used_price

Plain = dict[str, Any]
"""Stored record without its type."""
_BATCH = 200
"""Number of rows that are read and written together."""


def prices_of(models: Iterable[str]) -> dict[str, Price]:
    """Return prices by ``provider:model``, from models that are given with a price:
    ``openai:NAME[price_input=…,price_output=…]``.

    Raises:
        UserError: a model without a price.
    """
    prices: dict[str, Price] = {}
    for text in models:
        options = read_options(parse(text))
        name, price = f"{options.provider}:{options.model}", options.serving.price
        if price is None:
            raise UserError(
                f"--price {text!r} has no price. Give {name}[price_input=…,price_output=…] in dollars per "
                "million tokens, or price_gpu_hour=…"
            )
        prices[name] = msgspec.structs.replace(price, gpus=price.gpus or options.gpus)
    return prices


class RepricedCalls(Struct, kw_only=True):
    """Numbers of calls without a known price before, by result."""

    priced: int = 0
    unknown: int = 0
    """Calls whose price is still not known."""


def reprice(store: Store, runs: Sequence[Run], prices: Mapping[str, Price], *, arenas: bool = False) -> RepricedCalls:
    """Apply prices to stored calls without one, and write their costs.

    Args:
        store: of the runs.
        runs: whose attempts and judges' calls are repriced.
        prices: the user's, by ``provider:model``; the list of providers' prices is used for other models.
        arenas: also reprice the calls of all arenas.

    Raises:
        ragrounds.base.errors.StopRun: the store cannot be written.
    """
    repricing, arena_store = Repricing(store, prices), ArenaStore(store)
    of_runs = (schema.attempts, schema.gradings, schema.regradings)
    rows = [(table, table.c.run == store.number(run)) for run in runs for table in of_runs]
    judgements = schema.judgements
    rows += [
        (judgements, judgements.c.arena == arena_store.add(arena)) for arena in (arena_store.arenas() if arenas else ())
    ]
    try:
        for table, which in rows:
            repricing.rewrite(table, which)
        store_judging_sums(store, runs)
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(store.engine, error) from error
    return repricing.done


class _ResponseUsage(Struct):
    """Part of a recorded reply, or of a search, that its price depends on in addition to tokens."""

    busy: float | None = None
    cache_writes: int = 0
    used: tuple[Used, ...] | None = ()


class Repricing:
    """New prices of calls, in every kind of row that contains them."""

    def __init__(self, store: Store, prices: Mapping[str, Price]) -> None:
        self._store, self._prices = store, prices
        self.done = RepricedCalls()

    def rewrite(self, table: sa.Table, which: sa.ColumnElement[bool]) -> None:
        """Rewrite the rows in which the price of a call changes, in batches."""
        key = list(table.primary_key.columns)
        columns = sa.select(*key, *(column for column in table.c if column not in key))
        statement = columns.where(which, table.c.body.is_not(None)).order_by(*key).limit(_BATCH).with_for_update()
        last_key: tuple[object, ...] | None = None
        while True:
            next_rows = statement if last_key is None else statement.where(sa.tuple_(*key) > last_key)
            with exclusive_transaction(self._store.engine) as connection:
                rows = connection.execute(next_rows).all()
                for row in rows:
                    body = msgspec.msgpack.decode(decompress(row.body))
                    calls = _calls_in(body)
                    if sum(self._change(call) for call in calls):  # sum, because every call must be changed
                        same = sa.and_(*(column == value for column, value in zip(key, row, strict=False)))
                        sums = sums_of(calls, row.input is None) if "input" in table.c else {}
                        changes = {"body": compress(msgspec.msgpack.encode(body)), **sums}
                        full_row = summed(table, {**row._mapping, **changes})
                        connection.execute(sa.update(table).where(same).values(full_row))
            if len(rows) < _BATCH:
                return
            last_key = tuple(rows[-1])[: len(key)]

    def _change(self, call: Plain) -> bool:
        """Set the price of a call without one, and return True if it has a price now."""
        if call.get("error") or not isinstance(call["actor"], str) or call.get("cost_uncached") is not None:
            return False
        call["cost_uncached"] = price = self.price(call)
        self.done.priced += price is not None
        self.done.unknown += price is None
        return price is not None

    def price(self, call: Plain) -> float | None:
        usage = msgspec.convert(call.get("usage"), Usage | None)
        try:
            spec = parse(call["actor"])
        except UserError:  # a name that a foreign system chose
            return None
        if call["kind"] == "search":
            used = self._response_usage(call.get("key", "")).used
            return None if used is None else known_sum(used_price(resource, self._prices) for resource in used)
        if call["kind"] == "model":
            provider, _, model = spec.name.partition(":")
            price = self._prices.get(spec.name)
            if price is not None:
                is_by_reply = price.gpu_hour is not None or price.cache_write is not None
                response = self._response_usage(call.get("key", "") if is_by_reply else "")
                return price.dollars(usage, response.busy, response.cache_writes)
            if usage is None or provider in STARTED or "server" in spec.parameters or not model:
                return None
            return (
                0.0
                if provider == "baseline"
                else listed_price(provider, model, usage, self._response_usage(call.get("key", "")).cache_writes)
            )
        model = str(spec.parameters.get("model", ""))
        if usage is None or not model.startswith("openai:"):
            return None
        return used_price(Used(model, usage.input, "base_url" not in spec.parameters), self._prices)

    def _response_usage(self, key: str) -> _ResponseUsage:
        """Return the usage of the call that is recorded under a key; it is not known if there is no such call."""
        if not key:
            return _ResponseUsage(used=None)
        statement = sa.select(schema.calls.c.response).where(schema.calls.c.key == bytes.fromhex(key))
        row = next(iter(fetch_rows(self._store.engine, statement)), None)
        if row is None:
            return _ResponseUsage(used=None)
        return msgspec.msgpack.decode(
            decompress(row.response), type=_ResponseUsage, ext_hook=lambda code, data: "(long)"
        )


def _calls_in(body: Plain) -> list[Plain]:
    """Return the calls in a row's body: of an attempt's events, of a judgement, or the one of a judge."""
    if "events" in body:
        return [event["call"] for event in body["events"] if event["type"] == "called"]
    return list(body["calls"]) if "calls" in body else [body]


def sums_of(calls: Sequence[Plain], lacks_tokens: bool) -> dict[str, float | None]:
    """Return the total cost of calls, or nothing if other calls were never recorded.

    That is the case if the row lacks tokens (`lacks_tokens`), and the calls do not.
    """
    replied = [call for call in calls if not call.get("error") or any((call.get("usage") or {}).values())]
    if lacks_tokens and all(call.get("usage") is not None for call in replied if call.get("kind", "model") != "search"):
        return {}
    paid = (0.0 if call.get("cached") else call.get("cost_uncached") for call in replied)
    return {"cost_paid": known_sum(paid), "cost_uncached": known_sum(call.get("cost_uncached") for call in replied)}
