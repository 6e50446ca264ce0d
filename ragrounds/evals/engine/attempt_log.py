"""Log of one attempt: its events, the sums of its calls, and the check of its caps."""

from __future__ import annotations

import asyncio
import bisect
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ragrounds.agents.agent import Limits
from ragrounds.base.records import (
    TOKENS_APART,
    Call,
    Called,
    CallKind,
    Entered,
    Event,
    Fault,
    Left,
    Noted,
    Status,
    Usage,
)
from ragrounds.base.spent import Spent, known_sum, total_spent
from ragrounds.base.text import map_texts
from ragrounds.recorder.observer import STEP, event_time, step_here
from ragrounds.recorder.redaction import HIDDEN, redactor

MAX_STEPS = 1000
"""Largest number of steps of one attempt of a graph. Every built-in graph ends by its own limit, far below."""
TRACE_SIZE = 16_000_000
"""Largest number of characters that all nodes of one attempt may write to its trace.

A node that writes its whole state at every step writes the square of its state's size; a usual attempt has a hundredth
of this.
"""
LONGEST_REASON = 10_000
"""Largest number of characters of a failure reason: an error's message may be anything."""
REFUSED = "the provider's content filter refused the request"
"""Reason of a blocked attempt."""
CALL_HAD_FAILED = " (a call had failed: "
"""Begins what the reason of a failure adds from an earlier call."""
_NOTE = 50_000
"""Largest number of characters of a note, such as a traceback, whose message may be anything."""
_LOOK = 0.01
"""Seconds between two checks of a call that waits for others."""
_VALUE = 16
"""Number of characters that a value counts in addition to its text."""
_NAME = 200
"""Largest number of characters of a model's name in a reply: a server may write anything there."""


def repeats(reason: str, message: str) -> bool:
    """Return True if the reason of a failure has the message of a call, with or without its HTTP status."""
    return re.sub(r"^\d{3}: ", "", message) in reason


class AttemptEnded(Exception):
    """End of an attempt before its graph has ended; `status` says how."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status: Status = status
        self.reason = reason


class StartedCall(NamedTuple):
    """Call in flight: the step and the node that make it, when it began, and what is called."""

    step: int
    node: str
    started_at: float
    """Seconds since the epoch."""
    start: float
    """Seconds of the monotonic clock."""
    kind: CallKind = "model"
    role: str = "answering"
    actor: str = ""
    """Canonical text of the model or searcher that is called."""
    shift: float = 0.0
    """:attr:`AttemptLog.shift` when it began."""


@dataclass
class CoveredTime:
    """Time that some intervals cover; where they overlap, it counts once."""

    seconds: float = 0.0
    _starts: list[float] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)

    def add(self, start: float, end: float) -> None:
        """Add an interval."""
        first, last = bisect.bisect_left(self._ends, start), bisect.bisect_right(self._starts, end)
        if first < last:  # it touches intervals, and replaces them
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
            self.seconds -= sum(self._ends[first:last]) - sum(self._starts[first:last])
        self._starts[first:last], self._ends[first:last] = [start], [end]
        self.seconds += end - start


@dataclass(eq=False, kw_only=True)
class AttemptLog:
    """Events of an attempt in order of time, and the sums over its calls.

    A sum is ``None`` once a part of it is unknown, because a sum of the known parts would be read as the whole.

    Times are those of the recording: a call that the journal answers takes the seconds that it took when it was made,
    and calls that overlapped then count once. All other time is measured here.
    """

    limits: Limits = field(default_factory=Limits)
    events: list[Event] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    calls: Counter[str] = field(default_factory=Counter)
    """Number of calls that ended, by kind. Only the cap of calls counts all kinds, so that no loop of any kind is
    unlimited.
    """
    in_flight: int = 0
    """Number of calls that have begun and not ended. They count against the cap of calls, so that it also holds for
    parallel calls.
    """
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Lock for changes of the sums: calls of a foreign system end in several threads."""
    last_reply: str = ""
    is_refused: bool = False
    """True if a provider's content filter refused the last call of a user's system."""
    last_failure: str = ""
    """Message of the last call that never succeeded: a system that ignores such a failure fails later with another
    error.
    """
    unanswered: int = 0
    """Number of requests to models that were sent and got no readable answer."""
    waited: float | None = 0.0
    """Seconds in which servers did not work on their calls; ``None`` if one does not report when it worked."""
    billable: float | None = 0.0
    """Dollars that a budget counts: those paid, and the price of the request for calls whose own price is not known."""
    unrecorded_cost: float | None = 0.0
    """Part of `billable` for requests without a response in the journal. If the attempt is repeated, they are not
    counted again.
    """
    missed: int = 0
    """Number of calls that were seen and are in no journal."""
    masked: int = 0
    """Number of keys that were replaced by ``[key]`` in texts of the system and its tools."""
    _started: float = field(default_factory=time.perf_counter)
    _began_at: float = field(default_factory=time.time)
    """Seconds since the epoch at `_started`."""
    shift: float = 0.0
    """Seconds by which recorded calls make the attempt longer than it is in this process."""
    _made_in: CoveredTime = field(default_factory=CoveredTime)
    """Time in which the calls were made, by this process or when they were recorded."""
    _waited_for: CoveredTime = field(default_factory=CoveredTime)
    """Time in which this process waited for the calls."""
    _steps: dict[str, tuple[int, str, float]] = field(default_factory=dict)
    _trace_remaining: int = TRACE_SIZE
    _trace_full: bool = False

    def _clock(self) -> float:
        """Return the time of the monotonic clock, shifted by the recorded calls."""
        return event_time() + self.shift

    def redacted(self, text: str) -> str:
        """Return a text without keys, which are counted."""
        if not text:  # most calls and nodes have no error
            return text
        clean = redactor()(text)
        self.masked += clean.count(HIDDEN)  # those that the system's own process replaced count, too
        return clean

    def note(self, remark: str, text: str) -> None:
        """Leave a note in the trace, at the step that is running."""
        text = self.redacted(text)  # before it is cut: half a key is still a key
        if len(text) > _NOTE:
            text = f"{text[: _NOTE // 2]} … {text[-_NOTE // 2 :]}"
        self.events.append(Noted(step=self._step()[0], what=remark, text=text))

    def entered(self, task: str, node: str, inside: str = "") -> int:
        """Record that a node began, once for each of LangGraph's task ids, and return its step number.

        `inside` is the task in which it runs; empty: the step of this context, if there is one.
        """
        step = self._steps.get(task)
        if step is not None:
            return step[0]
        number = len(self._steps)
        parent_step = self._steps.get(inside or STEP.get())
        self._steps[task] = (number, node, self._clock())
        parent = parent_step[0] if parent_step else -1
        self.events.append(
            Entered(step=number, node=node, at=round(self._began_at + self._clock() - self._started, 3), parent=parent)
        )
        return number

    def left(self, task: str, node: str, changes: object, error: str = "") -> None:
        """Record that a node ended, with the changes that it wrote to the state.

        LangChain's messages become role and content; anything else that is not JSON becomes its text. Once `TRACE_SIZE`
        is reached, the output of nodes is left out, and a note reports it.
        """
        number = self.entered(task, node)
        seconds = self._clock() - self._steps[task][2]
        state_changes = changes if isinstance(changes, Mapping) else {}
        plain = {str(key): msgspec.to_builtins(value, enc_hook=_plain) for key, value in state_changes.items()}
        size, has_keys = _inspect(plain, self._trace_remaining)
        self._trace_remaining -= size
        if self._trace_remaining >= 0:
            plain = map_texts(plain, self.redacted) if has_keys else plain
        else:
            plain = {}
            if not self._trace_full:
                self._trace_full = True
                message = f"the trace holds {TRACE_SIZE:,} characters: later output of nodes is left out"
                self.note("trace_full", f"{message}; calls, times and the answer are not")
        error = self.redacted(error)[:LONGEST_REASON]
        self.events.append(Left(step=number, seconds=round(seconds, 4), changes=plain, error=error))

    async def under_cap(self) -> None:
        """Wait while the cap of calls would be exceeded unless calls in flight fail.

        Ending the attempt now would lose the results of calls that are being paid for.
        """
        cap, n_ended = self.limits.calls, self.calls.total
        # There is no event to wait for, because calls end on other loops and in other threads as well.
        while cap is not None and self.in_flight and n_ended() < cap <= n_ended() + self.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)

    def check_caps(self) -> None:
        """Check that the attempt is within its caps.

        Raises:
            AttemptEnded: a cap is reached.
        """
        caps, seconds = self.limits, self._clock() - self._started
        tokens, cost = self.spent.tokens, self.spent.cost_uncached
        reached = ""
        if caps.calls is not None and self.calls.total() + self.in_flight >= caps.calls:
            reached = f"{caps.calls:,} calls (of models, searches and tools)"
        elif caps.seconds is not None and seconds >= caps.seconds:
            reached = f"{caps.seconds:g} seconds"
        elif caps.tokens is not None and tokens is not None and tokens >= caps.tokens:
            reached = f"{caps.tokens:,} tokens"
        elif caps.cost is not None and cost is not None and cost >= caps.cost:
            reached = f"${caps.cost:g}"
        if reached:
            raise AttemptEnded("capped", f"the attempt's cap of {reached} is reached")

    def flies(self, change: int) -> None:
        """Change the number of calls in flight."""
        with self.lock:
            self.in_flight += change

    def begin_call(self, actor: str = "", kind: CallKind = "model", role: str = "answering") -> StartedCall:
        """Return the start of a call, with its step and the model or searcher that is called."""
        step, node = self._step()
        with self.lock:
            start = event_time()
            started_at = time.time() - (time.perf_counter() - start)
            return StartedCall(step, node, started_at, start, kind, role, actor, self.shift)

    def end_call(
        self,
        started: StartedCall,
        *,
        key: str = "",
        model: str = "",
        cached: bool = False,
        usage: Usage | None = None,
        worked: float | None = None,
        price: float | None = None,
        passages: tuple[str, ...] = (),
        faults: tuple[Fault, ...] = (),
        error: str = "",
        request_price: Callable[[], float | None] = lambda: None,
        times: tuple[float, float] | None = None,
    ) -> None:
        """Record a call, and add it to the sums unless it failed without a usage.

        `price` is in dollars, and so is `request_price`, the price of the request alone. `model` is the name in the
        reply. `key` is the call's key in the journal, empty for a call that a foreign graph made by itself. `times` are
        the start and the duration of a call that was not made here (:data:`ragrounds.evals.store.journal.Times`).
        """
        waited = max(0.0, event_time() - started.start)
        made_at, seconds = times or (self._began_at + started.start - self._started, waited)
        call = Call(
            key=key,
            kind=started.kind,
            role=started.role,
            node=started.node,
            actor=started.actor,
            model=model[:_NAME],
            at=round(started.started_at + started.shift, 3),
            seconds=round(seconds, 4),
            cached=cached,
            worked=worked,
            usage=usage,
            cost_uncached=price,
            passages=passages,
            faults=faults,
            error=self.redacted(error),
        )
        with self.lock:
            self._waited_for.add(started.start, started.start + waited)
            self._made_in.add(made_at, made_at + seconds)
            # Both are lengths: the two kinds of intervals are on different clocks.
            self.shift = self._made_in.seconds - self._waited_for.seconds
            self.calls[started.kind] += 1
            if started.kind == "model":
                self.waited = known_sum([self.waited, None if worked is None else max(0.0, call.seconds - worked)])
            self.events.append(Called(step=started.step, call=call))
            n_unanswered = call.spent.unanswered
            is_unpriced = price is None and not cached and call.is_counted
            cost_of_request = request_price() if n_unanswered or is_unpriced else 0.0
            self.unanswered += n_unanswered
            if n_unanswered and not cached:
                self._bill([cost_of_request] * n_unanswered, recorded=False)
            if call.is_counted:
                tokens = Usage() if started.kind == "search" or started.role in TOKENS_APART else usage
                self.add_cost(tokens, price, cached, cost_of_request, bool(key) and not error)

    def add_cost(
        self, usage: Usage | None, price: float | None, cached: bool, asked: float | None = None, recorded: bool = False
    ) -> None:
        """Add tokens and dollars to the sums; a `cached` call was not paid for.

        `asked` is the request's price, which a budget counts if the call's price is not known. `recorded`: the journal
        has the response.
        """
        added = Spent(usage=usage, cost_paid=0.0 if cached else price, cost_uncached=price)
        self.spent = total_spent((self.spent, added))
        if not cached:
            self._bill([asked if price is None else price], recorded)

    def _bill(self, dollars: list[float | None], recorded: bool) -> None:
        self.billable = known_sum([self.billable, *dollars])
        if not recorded:
            self.unrecorded_cost = known_sum([self.unrecorded_cost, *dollars])

    def _step(self) -> tuple[int, str]:
        """Return the number and the node of the step that is running; -1 outside of nodes."""
        path = step_here()
        if ":" not in path:  # not a path of LangGraph
            current = self._steps.get(path)
            return current[:2] if current else (-1, "")
        step, enclosing, node = -1, "", ""
        # A call may come before the event that its node began; the enclosing nodes are then entered first.
        for part in path.split("|"):
            name, colon, task = part.partition(":")
            if colon:
                step, enclosing, node = self.entered(task, name, enclosing), task, name
        return step, node


def _inspect(value: object, enough: int) -> tuple[int, bool]:
    """Count the characters of a value that consists of dictionaries, lists and texts, stopping soon after `enough`.

    Also return whether a text has keys.
    """
    size, has_keys, pending, redact = 0, False, [value], redactor()
    while pending and size <= enough:
        element = pending.pop()
        size += _VALUE
        if isinstance(element, str):
            size += len(element)
            has_keys = has_keys or redact(element) != element
        elif isinstance(element, dict):
            pending.extend((*element, *element.values()))
        elif isinstance(element, list | tuple):
            pending.extend(element)
    return size, has_keys


def _plain(value: object) -> object:
    from langchain_core.messages import BaseMessage

    if isinstance(value, BaseMessage):
        return {"role": value.type, "content": value.content, "calls": getattr(value, "tool_calls", [])}
    return repr(value)
