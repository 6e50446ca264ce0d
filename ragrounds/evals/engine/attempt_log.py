"""What one attempt has done and spent so far: its events, its sums, its caps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.config import get_config

from ragrounds.agents.agent import Limits
from ragrounds.contracts import Entry
from ragrounds.records import Call, Called, Entered, Event, Fault, Left, Noted, Status, Usage


class AttemptEnded(Exception):
    """The attempt is over before its graph is: `status` says how."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status: Status = status
        self.reason = reason


@dataclass(eq=False, kw_only=True)
class AttemptLog:
    """Events as they happen, and what the calls among them add up to."""

    limits: Limits = field(default_factory=Limits)
    events: list[Event] = field(default_factory=list)
    usage: Usage | None = field(default_factory=Usage)
    cost_paid: float | None = 0.0
    cost_uncached: float | None = 0.0
    calls: int = 0
    last_reply: str = ""
    _started: float = field(default_factory=time.perf_counter)
    _steps: dict[str, tuple[int, str, float]] = field(default_factory=dict)

    def note(self, what: str, text: str) -> None:
        """Leave a remark in the trace."""
        self.events.append(Noted(step=self._step()[0], what=what, text=text))

    def entered(self, task: str, node: str) -> int:
        """A node began (LangGraph's task id); the first word of it counts."""
        known = self._steps.get(task)
        if known is not None:
            return known[0]
        number = len(self._steps)
        self._steps[task] = (number, node, time.perf_counter())
        self.events.append(Entered(step=number, node=node, at=round(time.time(), 3)))
        return number

    def left(self, task: str, node: str, changes: Mapping[str, Any], error: str = "") -> None:
        """A node ended with these changes of the state."""
        number = self.entered(task, node)
        seconds = time.perf_counter() - self._steps[task][2]
        self.events.append(Left(step=number, seconds=round(seconds, 4), changes=dict(changes), error=error))

    def _step(self) -> tuple[int, str]:
        try:
            meta = get_config().get("metadata", {})
        except RuntimeError:  # outside of a node
            return -1, ""
        node = str(meta.get("langgraph_node", ""))
        namespace = str(meta.get("langgraph_checkpoint_ns", ""))
        step = -1
        # A call may come before the event that its node began; those around it are entered first.
        for part in namespace.split("|"):
            name, colon, task = part.partition(":")
            if colon:
                step = self.entered(task, name)
        return step, node

    def check_caps(self) -> None:
        """End the attempt where one of its caps is reached."""
        caps = self.limits
        if caps.calls is not None and self.calls >= caps.calls:
            raise AttemptEnded("capped", f"the attempt's cap of {caps.calls} calls is reached")
        if caps.seconds is not None and time.perf_counter() - self._started >= caps.seconds:
            raise AttemptEnded("capped", f"the attempt's cap of {caps.seconds:g} seconds is reached")
        if caps.tokens is not None and self.usage is not None and self.usage.input + self.usage.output >= caps.tokens:
            raise AttemptEnded("capped", f"the attempt's cap of {caps.tokens} tokens is reached")
        if caps.cost is not None and self.cost_uncached is not None and self.cost_uncached >= caps.cost:
            raise AttemptEnded("capped", f"the attempt's cap of ${caps.cost:g} is reached")

    def _add(self, usage: Usage | None, price: float | None, cached: bool) -> None:
        # One unknown makes the sum unknown: a sum of the known part would read as the whole.
        self.usage = None if self.usage is None or usage is None else self.usage + usage
        self.cost_uncached = None if self.cost_uncached is None or price is None else self.cost_uncached + price
        if not cached:
            self.cost_paid = None if self.cost_paid is None or price is None else self.cost_paid + price

    def observed(
        self,
        actor: str,
        seconds: float,
        usage: Usage | None,
        price: float | None,
        *,
        cached: bool = False,
        text: str = "",
        error: str = "",
    ) -> None:
        """A call that a user's own graph made by itself: in no journal, so it has no key."""
        step, node = self._step()
        self.calls += 1
        self._add(usage, price, cached)
        self.last_reply = text or self.last_reply
        call = Call(
            key="",
            kind="model",
            role="answering",
            node=node,
            actor=actor,
            at=round(time.time() - seconds, 3),
            seconds=round(seconds, 4),
            cached=cached,
            usage=usage,
            cost_uncached=price,
            error=error,
        )
        self.events.append(Called(step=step, call=call))

    def _record(
        self,
        step: int,
        entry: Entry,
        node: str,
        role: str,
        at: float,
        start: float,
        cached: bool = False,
        usage: Usage | None = None,
        price: float | None = None,
        passages: tuple[str, ...] = (),
        faults: tuple[Fault, ...] = (),
        error: str = "",
    ) -> None:
        self.calls += 1
        call = Call(
            key=entry.key,
            kind=entry.kind,
            role=role,
            node=node,
            actor=entry.actor,
            at=round(at, 3),
            seconds=round(time.perf_counter() - start, 4),
            cached=cached,
            usage=usage,
            cost_uncached=price,
            passages=passages,
            faults=faults,
            error=error,
        )
        self.events.append(Called(step=step, call=call))
