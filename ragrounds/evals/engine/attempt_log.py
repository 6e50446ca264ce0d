"""The log of one attempt: its events, the sums of its calls, and the caps that these are held to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from ragrounds.agents.agent import Limits
from ragrounds.base.records import TOKENS_APART, Call, Called, Entered, Event, Fault, Left, Noted, Status, Usage
from ragrounds.recorder.observer import AGO, STEP, step_here

MAX_STEPS = 1000
"""Steps of one attempt of a graph. Every built-in graph ends by its own limits, far below."""
TRACE_SIZE = 16_000_000
"""Characters that the nodes of one attempt may write to its trace, all together. A node that writes its whole state at
every step writes the square of what it knows; a usual attempt has a hundredth of this."""
LONGEST_REASON = 10_000
"""Characters of why an attempt or a node failed: an error's message may be anything."""
_NOTE = 50_000
"""Characters of a remark, such as a traceback, whose message may be anything."""
_LOOK = 0.01
"""Seconds after which a call that waits for others looks at them again."""
_VALUE = 16
"""Characters that a value counts for beside its text."""
_NAME = 200
"""Characters of a model's name in a reply: a server may write anything there."""


class AttemptEnded(Exception):
    """The attempt is over before its graph is: `status` says how."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status: Status = status
        self.reason = reason


class StartedCall(NamedTuple):
    """A call in flight: the step and the node that make it, when it began, and what is asked."""

    step: int
    node: str
    at: float
    """Seconds since the epoch."""
    start: float
    """Seconds of the monotonic clock."""
    number: int = 0
    """Its own among the calls of the attempt."""
    kind: str = "model"
    actor: str = ""
    """Who is asked: a model's or a searcher's canonical text."""
    what: str = ""
    """The query of a search, the role of a model's call."""


@dataclass(eq=False, kw_only=True)
class AttemptLog:
    """Events as they happen, and what the calls among them add up to.

    A sum is ``None`` once a part of it is unknown: a sum of the known parts would read as the whole.
    """

    limits: Limits = field(default_factory=Limits)
    events: list[Event] = field(default_factory=list)
    usage: Usage | None = field(default_factory=Usage)
    cost_paid: float | None = 0.0
    cost_uncached: float | None = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    """Calls that ended, by their kind. The cap of calls alone is of all kinds, so that no loop of any runs away."""
    in_flight: int = 0
    """Calls that have begun and not ended: they count against the cap of calls, which holds side by side as well."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while figures change: calls of a foreign system end in several threads."""
    doing: dict[int, StartedCall] = field(default_factory=dict)
    """Calls that have begun and not ended, by their numbers."""
    last_reply: str = ""
    last_failure: str = ""
    """What the last call gave that never succeeded: a system that does not look at it fails by something else."""
    unanswered: int = 0
    """Requests to models that were sent, and got no answer that could be read."""
    billable: float | None = 0.0
    """Dollars that a budget counts: those paid, and the price of a request where the call's own is not known."""
    missed: int = 0
    """Calls that were seen and are in no journal."""
    _started: float = field(default_factory=time.perf_counter)
    _steps: dict[str, tuple[int, str, float]] = field(default_factory=dict)
    _trace_left: int = TRACE_SIZE
    _trace_full: bool = False
    _begun: int = 0

    def note(self, what: str, text: str) -> None:
        """Leave a remark in the trace, at the step that is running."""
        if len(text) > _NOTE:
            text = f"{text[: _NOTE // 2]} … {text[-_NOTE // 2 :]}"
        self.events.append(Noted(step=self._step()[0], what=what, text=text))

    def entered(self, task: str, node: str, inside: str = "") -> int:
        """Record that a node began, once for each of LangGraph's task ids; give its step's number. `inside` is the task
        in which it runs; empty: the step of this context, where there is one."""
        known = self._steps.get(task)
        if known is not None:
            return known[0]
        number = len(self._steps)
        around = self._steps.get(inside or STEP.get())
        self._steps[task] = (number, node, time.perf_counter() - AGO.get())
        parent = around[0] if around else -1
        self.events.append(Entered(step=number, node=node, at=round(time.time() - AGO.get(), 3), parent=parent))
        return number

    def left(self, task: str, node: str, changes: object, error: str = "") -> None:
        """Record that a node ended, with what it wrote to the state.

        LangChain's messages become role and content; anything else that is not JSON becomes its text. Once `TRACE_SIZE`
        is reached, what nodes write is left out, and a note says so.
        """
        number = self.entered(task, node)
        seconds = time.perf_counter() - AGO.get() - self._steps[task][2]
        written = changes if isinstance(changes, Mapping) else {}
        plain = {str(key): msgspec.to_builtins(value, enc_hook=_plain) for key, value in written.items()}
        self._trace_left -= _size(plain, self._trace_left)
        if self._trace_left < 0:
            plain = {}
            if not self._trace_full:
                self._trace_full = True
                what = f"the trace holds {TRACE_SIZE:,} characters: later output of nodes is left out"
                self.note("trace_full", f"{what}; calls, times and the answer are not")
        self.events.append(Left(step=number, seconds=round(seconds, 4), changes=plain, error=error[:LONGEST_REASON]))

    async def under_cap(self) -> None:
        """Wait where the cap of calls holds only if calls in flight fail: the attempt's end would lose what is being
        paid for."""
        most, ended = self.limits.calls, self.calls.total
        # No event: calls end on other loops and in other threads as well.
        while most is not None and self.in_flight and ended() < most <= ended() + self.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)

    def check_caps(self) -> None:
        """Hold the attempt to its caps.

        Raises:
            AttemptEnded: a cap is reached.
        """
        caps, seconds = self.limits, time.perf_counter() - self._started
        tokens = 0 if self.usage is None else self.usage.input + self.usage.output
        reached = ""
        if caps.calls is not None and self.calls.total() + self.in_flight >= caps.calls:
            reached = f"{caps.calls:,} calls (of models, searches and tools)"
        elif caps.seconds is not None and seconds >= caps.seconds:
            reached = f"{caps.seconds:g} seconds"
        elif caps.tokens is not None and self.usage is not None and tokens >= caps.tokens:
            reached = f"{caps.tokens:,} tokens"
        elif caps.cost is not None and self.cost_uncached is not None and self.cost_uncached >= caps.cost:
            reached = f"${caps.cost:g}"
        if reached:
            raise AttemptEnded("capped", f"the attempt's cap of {reached} is reached")

    def flies(self, change: int) -> None:
        """Count calls that have begun, or ended."""
        with self.lock:
            self.in_flight += change

    def begin_call(self, actor: str = "", what: str = "", kind: str = "model") -> StartedCall:
        """Note when a call begins, in which step, and what is asked of whom."""
        step, node = self._step()
        with self.lock:
            self._begun += 1
            at, start = time.time() - AGO.get(), time.perf_counter() - AGO.get()
            begun = StartedCall(step, node, at, start, self._begun, kind, actor, what)
            self.doing[begun.number] = begun
        return begun

    def end_call(
        self,
        begun: StartedCall,
        actor: str,
        *,
        role: str = "answering",
        kind: Literal["model", "search", "tool"] = "model",
        key: str = "",
        model: str = "",
        cached: bool = False,
        usage: Usage | None = None,
        price: float | None = None,
        passages: tuple[str, ...] = (),
        faults: tuple[Fault, ...] = (),
        error: str = "",
        request_price: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Record a call, and add it to the sums unless it failed.

        `price` is in dollars, and so is `request_price`, of what is asked alone; `model` is the name in the reply;
        `key` is the call's key in the journal, empty for a call that a foreign graph made by itself.
        """
        call = Call(
            key=key,
            kind=kind,
            role=role,
            node=begun.node,
            actor=actor,
            model=model[:_NAME],
            at=round(begun.at, 3),
            seconds=round(time.perf_counter() - AGO.get() - begun.start, 4),
            cached=cached,
            usage=usage,
            cost_uncached=price,
            passages=passages,
            faults=faults,
            error=error,
        )
        with self.lock:
            self.doing.pop(begun.number, None)
            self.calls[kind] += 1
            self.events.append(Called(step=begun.step, call=call))
            unread = sum(fault.unanswered for fault in faults) if kind == "model" else 0
            asked = request_price() if unread or (price is None and not cached and not error) else 0.0
            self.unanswered += unread
            self.billable = plus(self.billable, None if asked is None else unread * asked)
            if not error:
                self.add_cost(Usage() if kind == "search" or role in TOKENS_APART else usage, price, cached, asked)

    def add_cost(self, usage: Usage | None, price: float | None, cached: bool, asked: float | None = None) -> None:
        """Add tokens and dollars to the sums; a `cached` call was not paid for. `asked`: the request's price, which a
        budget counts where the call's is not known."""
        self.usage = None if self.usage is None or usage is None else self.usage + usage
        self.cost_uncached = plus(self.cost_uncached, price)
        if not cached:
            self.cost_paid = plus(self.cost_paid, price)
            self.billable = plus(self.billable, asked if price is None else price)

    def _step(self) -> tuple[int, str]:
        """The number and the node of the step that is running; -1 outside of nodes."""
        here = step_here()
        if ":" not in here:  # no path of LangGraph's
            known = self._steps.get(here)
            return known[:2] if known else (-1, "")
        step, around, node = -1, "", ""
        # A call may come before the event that its node began; those around it are entered first.
        for part in here.split("|"):
            name, colon, task = part.partition(":")
            if colon:
                step, around, node = self.entered(task, name, around), task, name
        return step, node


def plus(total: float | None, more: float | None) -> float | None:
    """A sum; ``None``: a part of it is not known."""
    return None if total is None or more is None else total + more


def _size(value: object, enough: int) -> int:
    """Characters of a value made of dictionaries, lists and texts; no further than a little beyond `enough`."""
    size, left = 0, [value]
    while left and size <= enough:
        one = left.pop()
        size += _VALUE + (len(one) if isinstance(one, str) else 0)
        if isinstance(one, dict):
            left.extend((*one, *one.values()))
        elif isinstance(one, list | tuple):
            left.extend(one)
    return size


def _plain(value: object) -> object:
    from langchain_core.messages import BaseMessage

    if isinstance(value, BaseMessage):
        return {"role": value.type, "content": value.content, "calls": getattr(value, "tool_calls", [])}
    return repr(value)
