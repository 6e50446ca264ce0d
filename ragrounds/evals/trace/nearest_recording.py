"""What the journal holds that is nearest to a call which a replay misses, and where the two differ."""

from __future__ import annotations

from itertools import takewhile

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.records import Call
from ragrounds.base.redaction import redacted
from ragrounds.base.text import safe
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, traced_calls

_RUNS, _CALLS = 50, 200
"""The newest of them, which are looked at."""
_BEFORE, _SHOWN = 20, 80
"""Characters of a message before the first that differs, and in all."""


def nearest_words(store: Store, question_id: str, entry: Entry) -> str:
    """Say how near the recorded calls at a question come to one that is not recorded; empty: it is no chat."""
    asked = entry.request
    if not isinstance(asked, Request):
        return ""
    made: dict[str, Call] = {}
    for run in reversed(store.runs()[-_RUNS:]):
        for attempt in store.attempts(run, among=[question_id], skip_damaged=True):
            made.update((call.key, call) for call in calls(attempt.events) if call.kind == "model" and call.key)
    mine = [call for call in made.values() if call.actor == entry.actor][:_CALLS]
    held = [one.asked for one in traced_calls(store, mine) if one.asked is not None]
    if not held:
        others = ", ".join(sorted({call.actor for call in made.values()} - {entry.actor})[:3])
        return f"The journal holds no call of this model at this question{f', but of {others}' if others else ''}."
    nearest = max(held, key=lambda one: _closeness(asked, one))
    count = "1 call" if len(held) == 1 else f"{len(held)} calls"
    which = "it" if len(held) == 1 else "the nearest"
    words = _difference(asked, nearest)
    return f"The journal holds {count} of this model at this question; {which} differs in {words}."


def _closeness(now: Request, then: Request) -> tuple[int, int]:
    for place, (one, other) in enumerate(zip(now.messages, then.messages, strict=False)):
        if one != other:
            same = zip(one.content, other.content, strict=False)
            return place, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], same))
    return min(len(now.messages), len(then.messages)), 0


def _difference(now: Request, then: Request) -> str:
    place, start = _closeness(now, then)
    if place < min(len(now.messages), len(then.messages)):
        one, other = now.messages[place], then.messages[place]
        said = f"message {place + 1} ({one.role})"
        if one.content == other.content:
            return f"{said}, in who speaks or what tools it names"
        return f"{said}: {_around(one.content, start)} was {_around(other.content, start)}"
    if len(now.messages) != len(then.messages):
        return f"the number of its messages: {len(now.messages)} now, {len(then.messages)} then"
    names = [name for name in now.__struct_fields__ if getattr(now, name) != getattr(then, name, None)]
    return ", ".join(names) or "its address, or a setting that is not shown"


def _around(text: str, place: int) -> str:
    start = max(0, place - _BEFORE)
    shown = " ".join(redacted(text)[start : start + _SHOWN].split())
    return f"“{'…' * (start > 0)}{safe(shown)}{'…' * (len(text) > start + _SHOWN)}”"
