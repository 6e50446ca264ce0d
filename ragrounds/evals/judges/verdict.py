"""Verdicts of a judge: asking for them through the journal, and reading them from the reply.

The last verdict counts: if a reply contains several verdicts for an axis (it quoted an answer that contains one, or it
changed its mind), the last one is taken. Nothing is guessed: prose without a verdict, a verdict for both, and a word
that is not in the form are unreadable, with a reason. An unreadable reply is requested again as a new occurrence, with
the verdict's JSON schema if the judge's server follows one.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ragrounds.base.contracts import Entry, Journal, Model, Request
from ragrounds.base.records import DECLINED, Call, Fault, Message, Reply, Usage
from ragrounds.base.replies import json_objects, read_reply
from ragrounds.base.spent import Spent, total_spent
from ragrounds.base.text import without_invisible
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.models.faults import CallFailed

TIE = "tie"
EMPTY = "empty reply"
NOTHING = "no verdict in the reply"
BOTH = "a verdict for both"
CUT = "the reply was cut off before a verdict"
UNKNOWN = "not a verdict"
T = TypeVar("T")
_TIES = frozenset({TIE, "draw", "equal", "tied"})
_PREFIX = re.compile(r"^(?:answer|response|assistant|option)\s+", re.IGNORECASE)
_VERDICT_KEYS = ("verdict", "winner", "preferred", "choice", "grade", "value")
"""Keys under which judges nest a verdict next to an explanation."""
_LONGEST = 50_000
"""Number of characters of a reply that are read, from its end."""


class VerdictRead(Struct, frozen=True):
    """Verdicts read from a reply: axis → value of the form, and axis → reason for a missing value."""

    values: dict[str, str]
    reasons: dict[str, str]
    extra: tuple[str, ...] = ()
    """Keys that were not requested; they are ignored."""

    @property
    def complete(self) -> bool:
        """True if every axis has a verdict."""
        return not self.reasons


def read_verdict(text: str, form: VerdictForm, finish: str = "stop") -> VerdictRead:
    """Read the verdict of a reply; `finish` is the reason why it ended."""
    plain = without_invisible(spoken(text))
    value_texts: dict[str, str] = {}
    positions: dict[str, int] = {}
    extra: dict[str, None] = {}
    for parsed, _, end in json_objects(plain):
        object_values: dict[str, str] = {}
        _collect(parsed, form, object_values, extra)
        value_texts |= object_values
        positions |= dict.fromkeys(object_values, end)
    for axis in form.axes:
        for line, position in _lines(plain, axis):
            # Prose after the verdict ("Reasoning: good.") is not a verdict. A verdict without JSON after a quoted one
            # is.
            if axis not in value_texts or (position > positions[axis] and _value(line, form) in form.values):
                value_texts[axis], positions[axis] = line, position
    missing_reason = CUT if finish == "length" else NOTHING if plain.strip() else EMPTY
    values: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for axis in form.axes:
        value = _value(value_texts[axis], form) if axis in value_texts else missing_reason
        if value in form.values:
            values[axis] = value
        else:
            reasons[axis] = value
    return VerdictRead(values, reasons, tuple(extra))


def spoken(text: str) -> str:
    """Return a reply without thoughts and later turns; of a very long one only the end.

    A further question stays, because judges repeat the question that they judge.
    """
    reply = read_reply(text)
    questions = (omission.text for omission in reply.omissions if omission.kind == "further question")
    return "".join((reply.text, *questions))[-_LONGEST:]


def _collect(parsed: dict[str, Any], form: VerdictForm, value_texts: dict[str, str], extra: dict[str, None]) -> None:
    by_name = {axis.casefold(): axis for axis in form.axes}
    for key, value in parsed.items():
        axis = by_name.get(str(key).strip().casefold())
        if (
            axis is None
            and len(form.axes) == 1
            and str(key).casefold() in _VERDICT_KEYS
            and not isinstance(value, dict)
        ):
            axis = form.axes[0]
        if axis is not None:
            value_texts[axis] = _word(value)
        elif isinstance(value, dict):
            _collect(value, form, value_texts, extra)
        else:
            extra[str(key)[:40]] = None


def _word(value: Any) -> str:
    if isinstance(value, dict):
        by_key = {str(key).casefold(): nested for key, nested in value.items()}
        value = next((by_key[key] for key in _VERDICT_KEYS if key in by_key), "")
    if isinstance(value, list):
        return _word(value[0]) if len(value) == 1 else " and ".join(_word(element) for element in value)
    return value if isinstance(value, str) else json.dumps(value)


def _lines(text: str, axis: str) -> Iterator[tuple[str, int]]:
    """Yield every ``axis: value`` that ends its line or clause, with its position: a verdict without JSON, or in broken
    JSON."""
    quote = r"[\s\"'“”*_`\[\](]*"
    pattern = (
        rf"(?<!\w){re.escape(axis)}{quote}[:：=]{quote}([^\n\"'“”*_`\[\](),.;{{}}]{{1,40}}){quote}(?=[,.;)}}\n]|$)"
    )
    for match in re.finditer(pattern, text, re.IGNORECASE):
        yield match.group(1).strip(), match.start()


def _value(text: str, form: VerdictForm) -> str:
    """Return the form's value that the text gives, or the reason why it gives none."""
    word = _PREFIX.sub("", text.strip().strip("\"'*_`[]().").strip())
    folded = word.casefold()
    for value in form.values:
        if folded == value.casefold():
            return value
    if TIE in form.values and folded in _TIES:
        return TIE
    labels = [value.casefold() for value in form.values if value != TIE]
    mentioned = [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", folded)]
    if folded == "both" or (len(mentioned) > 1 and TIE in form.values):
        return BOTH
    return f"{UNKNOWN}: {word[:40]!r}" if word else NOTHING


TRIES = 3
"""Number of times a judge is asked before its verdict counts as missing."""
FAILED = "the call failed"
REFUSED = "the provider's content filter refused"


class Judgement(Struct, frozen=True, kw_only=True):
    """Verdict with the calls that it took."""

    values: dict[str, str]
    """Axis → value of the form; an axis without a verdict is missing."""
    reasons: dict[str, str]
    """Axis → reason why it is missing."""
    calls: tuple[Call, ...]
    failed: bool = False
    """True if a call gave no reply; another try may give one."""
    extra: tuple[str, ...] = ()
    reply_text: str = ""
    """Text of the last reply."""

    @property
    def spent(self) -> Spent:
        """Sum of its calls."""
        return total_spent(call.spent for call in self.calls)


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
    """Ask until every axis has a verdict, at most `tries` times, and not twice in the same words at temperature 0.

    The reply with verdicts on most axes counts; a complete reply ends the tries. Calls have the role ``judging``;
    `first` is the occurrence number of the first call.

    Raises:
        ragrounds.base.errors.StopRun: the judge cannot be asked at all (wrong key, unknown model).
    """
    best = VerdictRead({}, dict.fromkeys(form.axes, EMPTY))
    calls: list[Call] = []
    last_text = ""
    schema = None if form.strict("") is not None else form.schema  # published forms are asked for as published
    for occurrence, response_format in enumerate(formats_of_tries(judge, tries, schema), first):
        request = Request(messages=tuple(messages), occurrence=occurrence, response_format=response_format)
        try:
            reply = await call(judge, journal, request, node, calls)
        except CallFailed:
            reasons = {axis: FAILED for axis in form.axes if axis not in best.values}
            return Judgement(
                values=best.values,
                reasons=reasons,
                calls=tuple(calls),
                failed=True,
                extra=best.extra,
                reply_text=last_text,
            )
        last_text = reply.text
        if reply.finish in DECLINED:
            reading = VerdictRead({}, dict.fromkeys(form.axes, REFUSED))
        elif (strict_value := form.strict(spoken(reply.text))) is not None:
            reading = (
                VerdictRead({form.axes[0]: strict_value}, {})
                if strict_value
                else VerdictRead({}, {form.axes[0]: NOTHING})
            )
        else:
            reading = read_verdict(reply.text, form, reply.finish)
        if occurrence == first or len(reading.values) > len(best.values):
            best = reading
        if best.complete:
            break
    return Judgement(
        values=best.values, reasons=best.reasons, calls=tuple(calls), extra=best.extra, reply_text=last_text
    )


def formats_of_tries(judge: Model, tries: int, schema: dict[str, object] | None) -> list[dict[str, object] | None]:
    """Return `response_format` of each try of a judge that may reply in a wrong form.

    The first try leaves the judge free to reason. Later ones demand the schema if the judge's server follows one
    (:attr:`ragrounds.models.base.ProviderModel.follows_schemas`). At temperature 0 no request is repeated: the reply
    would be the same.
    """
    later = schema if getattr(judge, "follows_schemas", False) else None
    if getattr(judge, "is_greedy", False):
        tries = min(tries, 1 if later is None else 2)
    return [None, *[later] * (tries - 1)][:tries]


async def ask_until_read(
    judge: Model,
    journal: Journal,
    messages: Sequence[Message],
    read: Callable[[Reply], tuple[T | None, str]],
    calls: list[Call],
    *,
    node: str,
    tries: int,
    occurrences: Iterator[int],
    schema: dict[str, object] | None = None,
) -> tuple[T | None, str]:
    """Ask until `read` makes something of a reply, at most `tries` times; each call takes the next occurrence number.

    Args:
        schema: JSON schema of a readable reply, for :func:`formats_of_tries`.

    Returns:
        What was read, or ``None`` and the reason why the last reply could not be read.

    Raises:
        ragrounds.models.faults.CallFailed: a call gave no reply.
        ragrounds.base.errors.StopRun: the judge cannot be asked at all.
    """
    reason = EMPTY
    for response_format in formats_of_tries(judge, tries, schema):
        request = Request(messages=tuple(messages), occurrence=next(occurrences), response_format=response_format)
        reply = await call(judge, journal, request, node, calls)
        if reply.finish in DECLINED:
            reason = REFUSED
            continue
        value, reason = read(reply)
        if value is not None:
            return value, ""
    return None, reason


async def call(judge: Model, journal: Journal, request: Request, node: str, calls: list[Call]) -> Reply:
    """Make one call of a judge through the journal, and append it to `calls`, also if it fails.

    Raises:
        ragrounds.models.faults.CallFailed: there is no reply after all retries.
        ragrounds.base.errors.StopRun: the judge cannot be asked at all.
    """
    key = hashlib.sha256(msgspec.msgpack.encode(("judge", judge.spec, request))).hexdigest()
    entry = Entry(key=key, kind="model", actor=judge.spec, request=request)
    faults: list[Fault] = []
    started_at, start = time.time(), time.perf_counter()

    def record(reply: Reply, cached: bool = False, call_faults: Sequence[Fault] = (), error: str = "") -> None:
        """Append the call, with its reply or its error."""
        calls.append(
            Call(
                key=key,
                kind="model",
                role="judging",
                node=node,
                actor=judge.spec,
                model=reply.model[:200],
                at=round(started_at, 3),
                seconds=round(time.perf_counter() - start, 4),
                cached=cached,
                worked=reply.worked,
                usage=reply.usage,
                cost_uncached=0.0 if error and reply.usage == Usage() else judge.price(reply),
                faults=tuple(call_faults),
                error=error,
            )
        )

    try:
        reply, cached = await journal.once(entry, lambda: judge.complete(request, faults), Reply)
    except CallFailed as error:
        no_reply = Reply(text="", usage=error.usage or Usage())
        record(no_reply, call_faults=error.faults or faults, error=f"{error.kind}: {error.message}")
        raise
    record(reply, cached, faults)
    return reply
