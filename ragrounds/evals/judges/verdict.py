"""A judge's verdict: asking for it through the journal, and reading it from the reply.

The last word counts: where a reply holds several verdicts for an axis (it quoted an answer that holds one, it changed
its mind), the last one is taken. Nothing is guessed: prose without a verdict, a verdict for both, a word that is not in
the form are unreadable, and say why. An unreadable reply is asked for again as a new occurrence.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.base.contracts import Entry, Journal, Model, Request
from ragrounds.base.records import Call, Fault, Message, Reply, Usage
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.models.faults import CallFailed

TIE = "tie"
EMPTY = "empty reply"
NOTHING = "no verdict in the reply"
BOTH = "a verdict for both"
CUT = "the reply was cut off before a verdict"
UNKNOWN = "not a verdict"
_TIES = frozenset({TIE, "draw", "equal", "tied"})
_PREFIX = re.compile(r"^(?:answer|response|assistant|option)\s+", re.IGNORECASE)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_INSIDE = ("verdict", "winner", "preferred", "choice", "grade", "value")
"""Keys under which judges nest a verdict beside an explanation."""
_LONGEST = 50_000
"""Characters of a reply that are read, from its end."""


class VerdictRead(Struct, frozen=True):
    """What could be read: axis → value of the form, and axis → reason where there is none."""

    values: dict[str, str]
    reasons: dict[str, str]
    extra: tuple[str, ...] = ()
    """Keys that nobody asked for; they are left aside."""

    @property
    def complete(self) -> bool:
        """Whether every axis has a verdict."""
        return not self.reasons


def read_verdict(text: str, form: VerdictForm, finish: str = "stop") -> VerdictRead:
    """The verdict of a reply; `finish` is why it ended."""
    plain = spoken(text)
    said: dict[str, str] = {}
    places: dict[str, int] = {}
    extra: dict[str, None] = {}
    for found, end in objects(plain):
        here: dict[str, str] = {}
        _collect(found, form, here, extra)
        said |= here
        places |= dict.fromkeys(here, end)
    for axis in form.axes:
        for line, place in _lines(plain, axis):
            # Prose after the verdict ("Reasoning: good.") is no verdict; a verdict without JSON after a quoted one is.
            if axis not in said or (place > places[axis] and _value(line, form) in form.values):
                said[axis], places[axis] = line, place
    nothing = CUT if finish == "length" else NOTHING if plain.strip() else EMPTY
    values: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for axis in form.axes:
        value = _value(said[axis], form) if axis in said else nothing
        if value in form.values:
            values[axis] = value
        else:
            reasons[axis] = value
    return VerdictRead(values, reasons, tuple(extra))


def spoken(text: str) -> str:
    """A reply without what was thought aloud; of a very long one, its end."""
    return _THINKING.sub("", text)[-_LONGEST:]


def objects(text: str) -> Iterator[tuple[dict[str, Any], int]]:
    """The JSON objects in the text in order, and where each ends; an object inside another comes with it."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(found, dict):
                yield found, end
        at = text.find("{", end)


def _collect(found: dict[str, Any], form: VerdictForm, said: dict[str, str], extra: dict[str, None]) -> None:
    by_name = {axis.casefold(): axis for axis in form.axes}
    for key, value in found.items():
        axis = by_name.get(str(key).strip().casefold())
        if axis is None and len(form.axes) == 1 and str(key).casefold() in _INSIDE and not isinstance(value, dict):
            axis = form.axes[0]
        if axis is not None:
            said[axis] = _word(value)
        elif isinstance(value, dict):
            _collect(value, form, said, extra)
        else:
            extra[str(key)[:40]] = None


def _word(value: Any) -> str:
    if isinstance(value, dict):
        inside = {str(key).casefold(): item for key, item in value.items()}
        value = next((inside[key] for key in _INSIDE if key in inside), "")
    if isinstance(value, list):
        return _word(value[0]) if len(value) == 1 else " and ".join(_word(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)


def _lines(text: str, axis: str) -> Iterator[tuple[str, int]]:
    """Every ``axis: value`` that ends its line or clause, and its place: a verdict without JSON, or in broken JSON."""
    quote = r"[\s\"'*_`\[\](]*"
    pattern = rf"(?<!\w){re.escape(axis)}{quote}[:=]{quote}([^\n\"'*_`\[\](),.;{{}}]{{1,40}}){quote}(?=[,.;)}}\n]|$)"
    for found in re.finditer(pattern, text, re.IGNORECASE):
        yield found.group(1).strip(), found.start()


def _value(said: str, form: VerdictForm) -> str:
    """The form's value that was said, or why there is none."""
    word = _PREFIX.sub("", said.strip().strip("\"'*_`[]().").strip())
    folded = word.casefold()
    for value in form.values:
        if folded == value.casefold():
            return value
    if TIE in form.values and folded in _TIES:
        return TIE
    labels = [value.casefold() for value in form.values if value != TIE]
    named = [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", folded)]
    if folded == "both" or (len(named) > 1 and TIE in form.values):
        return BOTH
    return f"{UNKNOWN}: {word[:40]!r}" if word else NOTHING


TRIES = 3
"""How often a judge is asked before its verdict counts as missing."""
FAILED = "the call failed"
REFUSED = "the provider's content filter refused"


class Judgement(Struct, frozen=True, kw_only=True):
    """A verdict and what it took to get it."""

    values: dict[str, str]
    """Axis → value of the form; an axis without one is missing."""
    reasons: dict[str, str]
    """Axis → why it is missing."""
    calls: tuple[Call, ...]
    failed: bool = False
    """A call gave no reply: another time it may."""
    extra: tuple[str, ...] = ()
    said: str = ""
    """The text of the last reply."""

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
    form: VerdictForm,
    *,
    tries: int = TRIES,
    node: str = "judge",
    first: int = 0,
) -> Judgement:
    """Ask until every axis has a verdict, `tries` times at most.

    The reply with most axes counts, the first complete one at once. Calls have the role ``judging``; `first` is the
    occurrence of the first of them.

    Raises:
        ragrounds.base.errors.StopRun: the judge cannot be asked at all (wrong key, unknown model).
    """
    best = VerdictRead({}, dict.fromkeys(form.axes, EMPTY))
    calls: list[Call] = []
    said = ""
    for occurrence in range(first, first + tries):
        request = Request(messages=tuple(messages), occurrence=occurrence)
        try:
            reply = await call(judge, journal, request, node, calls)
        except CallFailed:
            reasons = {axis: FAILED for axis in form.axes if axis not in best.values}
            return Judgement(
                values=best.values, reasons=reasons, calls=tuple(calls), failed=True, extra=best.extra, said=said
            )
        said = reply.text
        if reply.finish == "content_filter":
            reading = VerdictRead({}, dict.fromkeys(form.axes, REFUSED))
        elif (own := form.strict(spoken(reply.text))) is not None:
            reading = VerdictRead({form.axes[0]: own}, {}) if own else VerdictRead({}, {form.axes[0]: NOTHING})
        else:
            reading = read_verdict(reply.text, form, reply.finish)
        if occurrence == first or len(reading.values) > len(best.values):
            best = reading
        if best.complete:
            break
    return Judgement(values=best.values, reasons=best.reasons, calls=tuple(calls), extra=best.extra, said=said)


async def call(judge: Model, journal: Journal, request: Request, node: str, calls: list[Call]) -> Reply:
    """One call of a judge through the journal; it is appended to `calls`, also where it fails.

    Raises:
        ragrounds.models.faults.CallFailed: no reply after all retries.
        ragrounds.base.errors.StopRun: the judge cannot be asked at all.
    """
    key = hashlib.sha256(msgspec.msgpack.encode(("judge", judge.spec, request))).hexdigest()
    entry = Entry(key=key, kind="model", actor=judge.spec, request=request)
    faults: list[Fault] = []
    at, start = time.time(), time.perf_counter()

    def record(reply: Reply | None = None, cached: bool = False, given: Sequence[Fault] = (), error: str = "") -> None:
        """Append the call, with its reply or its error."""
        calls.append(
            Call(
                key=key,
                kind="model",
                role="judging",
                node=node,
                actor=judge.spec,
                model=reply.model[:200] if reply else "",
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
