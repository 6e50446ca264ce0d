"""The recorded call that is nearest to a call which a replay misses, and the difference between the two."""

from __future__ import annotations

from itertools import takewhile

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.records import Call
from ragrounds.base.text import safe
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, traced_calls
from ragrounds.recorder.redaction import redacted

_RUNS, _CALLS = 50, 200
"""Numbers of newest runs and calls that are compared."""
_BEFORE, _SHOWN = 20, 80
"""Numbers of characters of a message before the first difference, and in all."""


def nearest_words(store: Store, question_id: str, entry: Entry) -> str:
    """Describe how near the recorded calls at a question come to one that is not recorded; empty if that is no chat."""
    request = entry.request
    if not isinstance(request, Request):
        return ""
    calls_by_key: dict[str, Call] = {}
    for run in reversed(store.runs()[-_RUNS:]):
        for attempt in store.attempts(run, among=[question_id], skip_damaged=True):
            calls_by_key.update((call.key, call) for call in calls(attempt.events) if call.kind == "model" and call.key)
    same_model = [call for call in calls_by_key.values() if call.actor == entry.actor][:_CALLS]
    recorded_requests = [traced.asked for traced in traced_calls(store, same_model) if traced.asked is not None]
    if not recorded_requests:
        models = ", ".join(sorted({call.actor for call in calls_by_key.values()} - {entry.actor})[:3])
        return f"The journal holds no call of this model at this question{f', but of {models}' if models else ''}."
    nearest = max(recorded_requests, key=lambda recorded: _common_prefix(request, recorded))
    count = "1 call" if len(recorded_requests) == 1 else f"{len(recorded_requests)} calls"
    which = "it" if len(recorded_requests) == 1 else "the nearest"
    words = _difference(request, nearest)
    return f"The journal holds {count} of this model at this question; {which} differs in {words}."


def _common_prefix(request: Request, recorded: Request) -> tuple[int, int]:
    for index, (message, recorded_message) in enumerate(zip(request.messages, recorded.messages, strict=False)):
        if message != recorded_message:
            same = zip(message.content, recorded_message.content, strict=False)
            return index, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], same))
    return min(len(request.messages), len(recorded.messages)), 0


def _difference(request: Request, recorded: Request) -> str:
    index, start = _common_prefix(request, recorded)
    if index < min(len(request.messages), len(recorded.messages)):
        message, recorded_message = request.messages[index], recorded.messages[index]
        message_words = f"message {index + 1} ({message.role})"
        if message.content == recorded_message.content:
            return f"{message_words}, in who speaks or what tools it names"
        return f"{message_words}: {_around(message.content, start)} was {_around(recorded_message.content, start)}"
    if len(request.messages) != len(recorded.messages):
        return f"the number of its messages: {len(request.messages)} now, {len(recorded.messages)} then"
    names = [name for name in request.__struct_fields__ if getattr(request, name) != getattr(recorded, name, None)]
    return ", ".join(names) or "its address, or a setting that is not shown"


def _around(text: str, position: int) -> str:
    start = max(0, position - _BEFORE)
    excerpt = " ".join(redacted(text)[start : start + _SHOWN].split())
    return f"“{'…' * (start > 0)}{safe(excerpt)}{'…' * (len(text) > start + _SHOWN)}”"
