"""Asking a judge: every call through the journal, an unparsable reply asked for again as a new occurrence."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ragrounds.contracts import Entry, Journal, Model, Request
from ragrounds.evals.judges.verdict import EMPTY, Contract, Reading, read_verdict
from ragrounds.models.faults import CallFailed
from ragrounds.records import Call, Fault, Message, Reply, Usage

TRIES = 3
"""How often a judge is asked before its verdict counts as missing."""
FAILED = "the call failed"
REFUSED = "the provider's content filter refused"


class Judgement(Struct, frozen=True, kw_only=True):
    """A verdict and what it took to get it."""

    values: dict[str, str]
    """Axis → value of the contract; an axis without one is missing."""
    reasons: dict[str, str]
    """Axis → why it is missing."""
    calls: tuple[Call, ...]
    failed: bool = False
    """A call gave no reply: another time it may."""
    extra: tuple[str, ...] = ()

    @property
    def usage(self) -> Usage | None:
        """Tokens of all calls; ``None``: not all known."""
        total = Usage()
        for call in self.calls:
            if call.usage is None:
                return None
            total = total + call.usage
        return total

    @property
    def cost_uncached(self) -> float | None:
        """Dollars with an empty journal; ``None``: no known price."""
        return _sum([call.cost_uncached for call in self.calls])

    @property
    def cost_paid(self) -> float | None:
        """Dollars really paid now."""
        return _sum([0.0 if call.cached else call.cost_uncached for call in self.calls])


async def ask(
    judge: Model,
    journal: Journal,
    messages: Sequence[Message],
    contract: Contract,
    *,
    tries: int = TRIES,
    node: str = "judge",
) -> Judgement:
    """Ask until every axis has a verdict, `tries` times at most.

    The reply with most axes counts, the first complete one at once. Calls have the role ``judging``.

    Raises:
        ragrounds.errors.StopRun: the judge cannot be asked at all (wrong key, unknown model).
    """
    best = Reading({}, dict.fromkeys(contract.axes, EMPTY))
    calls: list[Call] = []
    for occurrence in range(tries):
        request = Request(messages=tuple(messages), occurrence=occurrence)
        try:
            reply = await call(judge, journal, request, node, calls)
        except CallFailed:
            reasons = {axis: FAILED for axis in contract.axes if axis not in best.values}
            return Judgement(values=best.values, reasons=reasons, calls=tuple(calls), failed=True, extra=best.extra)
        if reply.finish == "content_filter":
            reading = Reading({}, dict.fromkeys(contract.axes, REFUSED))
        else:
            reading = read_verdict(reply.text, contract, reply.finish)
        if occurrence == 0 or len(reading.values) > len(best.values):
            best = reading
        if best.complete:
            break
    return Judgement(values=best.values, reasons=best.reasons, calls=tuple(calls), extra=best.extra)


async def call(judge: Model, journal: Journal, request: Request, node: str, calls: list[Call]) -> Reply:
    """One call of a judge through the journal; it is appended to `calls`, also where it fails.

    Raises:
        ragrounds.models.faults.CallFailed: no reply after all retries.
        ragrounds.errors.StopRun: the judge cannot be asked at all.
    """
    key = hashlib.sha256(msgspec.msgpack.encode(("judge", judge.spec, request))).hexdigest()
    entry = Entry(key=key, kind="model", actor=judge.spec, request=request)
    faults: list[Fault] = []
    at, start = time.time(), time.perf_counter()

    def record(reply: Reply | None = None, cached: bool = False, given: Sequence[Fault] = (), error: str = "") -> None:
        calls.append(
            Call(
                key=key,
                kind="model",
                role="judging",
                node=node,
                actor=judge.spec,
                at=round(at, 3),
                seconds=round(time.perf_counter() - start, 4),
                cached=cached,
                usage=reply.usage if reply else Usage(),
                cost_uncached=judge.price(reply) if reply else 0.0,
                faults=tuple(given),
                error=error,
            )
        )

    try:
        reply, cached = await journal.once(entry, lambda: judge.complete(request, faults), Reply)
    except CallFailed as error:
        record(given=error.faults or faults, error=f"{error.kind}: {error.message}")
        raise
    record(reply, cached, faults)
    return reply


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
