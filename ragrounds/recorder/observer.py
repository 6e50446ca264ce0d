"""Interface between a system and its observer: the question, the answer, and reported events.

All are plain values, so that they can be passed by a call or over a socket.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from .wire import WATCHER, WireRequest, WireResponse

PROVIDER = "ragrounds"
"""Name of the provider of the attempt context's models in LangChain. Calls of these models are already recorded."""
STEP: ContextVar[str] = ContextVar("step", default="")
"""Step in which this code runs, if it is not in a LangGraph graph: its `task`, as passed to :meth:`Observer.entered`.

Calls in this context are reported as made in that step. It may be a path of LangGraph, as :func:`step_here` returns it.
"""

TOLD_AT: ContextVar[float | None] = ContextVar("told_at", default=None)
"""Time of the event that another process reports in this context, on the monotonic clock; events arrive in batches."""


def event_time() -> float:
    """Return the time of the event that is reported in this context, on the monotonic clock: by default now."""
    told_at = TOLD_AT.get()
    return time.perf_counter() if told_at is None else told_at


class SystemAnswer(NamedTuple):
    """Answer of a system."""

    text: str
    choice: str = ""
    """Letter of an option. If empty, it is read from the text."""
    passages: Sequence[Mapping[str, object]] = ()
    """Passages on which the answer is based, best first, each with `id`, `document`, `title`, `text`, `score`,
    `rank`.
    """


class Observer(Protocol):
    """Receiver of a system's events in one attempt, from any thread.

    HTTP calls of the system are not reported: they are recorded where they leave the process. Arguments are texts,
    numbers, lists and dictionaries. Methods return nothing. They may raise :class:`~.wire.Unsent` if the attempt has
    ended.
    """

    @property
    def thread(self) -> str:
        """Return a thread id that is unique to this attempt, for systems that keep conversations."""

    @property
    def max_steps(self) -> int:
        """Return the number of steps after which a graph is ended."""

    @property
    def changes(self) -> bool:
        """Return True if the results of its searches are changed: see :func:`report_search`."""

    @property
    def context(self) -> Any:
        """Return the runtime context for a graph that takes the evaluation's context. Only in the evaluation's
        process.
        """

    def entered(self, task: str, node: str, inside: str = "") -> None:
        """Report that a step (a node, a part of a workflow) began.

        `task` is its id, and `inside` the id of the enclosing step. If `inside` is empty, it is the step of this
        context, if any.
        """

    def left(self, task: str, node: str, changes: Mapping[str, object], error: str = "") -> None:
        """Report that a step ended. `changes` is what it wrote."""

    def search_returned(
        self,
        query: str,
        passages: Sequence[Mapping[str, object]],
        tool: str,
        *,
        node: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Report that a search in the system's process returned these passages, best first.

        They are as in :attr:`SystemAnswer.passages`. `tool` names the searcher.
        """

    def handed_on(self, query: str) -> None:
        """Report that a tool called with this query passed on known results. Its output is not a new search."""

    def model_called(self, token: str, label: str, has_begun: bool) -> None:
        """Report that a model call of the system began (`has_begun`), or ended.

        `token` is its id, and is in :data:`~.wire.MODEL_CALL` meanwhile. A call without an HTTP call is not recorded,
        and `label` describes it as in :meth:`unseen`.
        """

    def model_started(self, token: str, provider: str, model: str, kind: str) -> None:
        """Report that a model call with more details began: provider, model name and class. :meth:`model_ended` ends
        it.
        """

    def model_ended(
        self,
        token: str,
        *,
        text: str = "",
        model: str = "",
        usage: Mapping[str, object] | None = None,
        cached: bool = False,
        error: str = "",
    ) -> None:
        """Report that this call ended.

        It ended with a reply of this text, by the model of this name, with these tokens (LangChain's
        ``usage_metadata``; ``None`` if unknown); from the system's own cache; or with an error of this class.
        """

    def unseen(self, label: str) -> None:
        """Report a call that cannot be recorded, and so not replayed. `label` describes it: ``a model of class
        FakeListChatModel``.
        """

    def note(self, remark: str, text: str) -> None:
        """Add a remark to the trace."""


class Form(Protocol):
    """A system in its form, ready to answer many questions at the same time."""

    @property
    def kind(self) -> str:
        """Return a short description for tables: ``LangGraph graph``, ``function``."""

    @property
    def takes_context(self) -> bool:
        """Return True if it calls models and searches only through :attr:`Observer.context`."""

    @property
    def wrapped(self) -> object:
        """Return the wrapped object."""

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> SystemAnswer:
        """Answer one question. Any exception may be raised.

        Args:
            question: `id`, `text`, `options` (letter → text) and `language`; and `item`, the evaluation's own record of
                it, only in the evaluation's process.
            seen: observer of the attempt.

        Raises:
            ragrounds.recorder.errors.AskedPerson: it stopped to ask a person, and no answer is configured.
        """


FOUND = "FOUND"
"""Method of the request for the replacement of a search's results. Nothing is sent."""
GOING: ContextVar[list[Any] | None] = ContextVar("going", default=None)
"""List to which a changeable search in this context appends its results and their replacement."""


def report_search(seen: Observer, query: str, passages: Sequence[Mapping[str, object]], tool: str, **more: Any) -> None:
    """Report a search (:meth:`Observer.search_returned`), and replace its results if that is requested and possible."""
    changes, watcher = GOING.get(), WATCHER.get()
    if not seen.changes or changes is None or watcher is None:
        seen.search_returned(query, passages, tool, **more)
        return
    body = json.dumps({"query": query, "passages": passages, "tool": tool, **more}).encode()
    answer = watcher.exchange_blocking(WireRequest(FOUND, tool, {}, body), lambda grown: WireResponse(500, "", b""))
    if answer is not None and answer.body:
        changes.append((passages, json.loads(answer.body)))


def step_here() -> str:
    """Return the current step, for :data:`STEP`. In a LangGraph node, it is the path ``NODE:TASK|NODE:TASK``."""
    module = sys.modules.get("langchain_core.runnables.config")
    config_variable = getattr(module, "var_child_runnable_config", None)
    config = config_variable.get() if config_variable is not None else None
    if not config:
        return STEP.get()
    return str((config.get("metadata") or {}).get("langgraph_checkpoint_ns", ""))
