"""What a system is asked, what it gives back, and whom it tells what it does meanwhile: plain values, so that they pass
a call and a socket alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from .wire import WATCHER, WireRequest, WireResponse

PROVIDER = "ragrounds"
"""What LangChain is told of who provides the models of an attempt's context: their calls are recorded there already."""
STEP: ContextVar[str] = ContextVar("step", default="")
"""The step (its `task`, as :meth:`Observer.entered` got it) that this code runs in, where it is no LangGraph graph:
calls made there are told of as made in that step. It may be a path of LangGraph's, as :func:`step_here` gives it."""

AGO: ContextVar[float] = ContextVar("ago", default=0.0)
"""Seconds since what is told of in this context: events of another process come some together."""


class Given(NamedTuple):
    """What a system answered."""

    text: str
    choice: str = ""
    """The letter of an option; empty: it is read from the text."""
    passages: Sequence[Mapping[str, object]] = ()
    """What the answer was made from, best first, each with `id`, `document`, `title`, `text`, `score`, `rank`."""


class Observer(Protocol):
    """Who is told what a system does in one attempt; from whatever thread.

    Its calls over HTTP need no telling: they are recorded where they leave the process. What it is told are texts,
    numbers, lists and dictionaries. It gives nothing back; it may raise :class:`~.wire.Unsent` where the attempt is
    over.
    """

    @property
    def thread(self) -> str:
        """A thread id of this attempt alone, for systems that keep conversations."""

    @property
    def max_steps(self) -> int:
        """Steps after which a graph is ended."""

    @property
    def changes(self) -> bool:
        """Whether what its searches find is changed: see :func:`found`."""

    @property
    def context(self) -> Any:
        """What a graph gets as its runtime context that takes the evaluation's own; only in its own process."""

    def entered(self, task: str, node: str, inside: str = "") -> None:
        """A step (a node, a part of a workflow) began: `task` is its own id, `inside` that of the step in which it
        runs; empty: the step of this context, if any."""

    def left(self, task: str, node: str, changes: Mapping[str, object], error: str = "") -> None:
        """A step ended; `changes` is what it wrote."""

    def found(
        self,
        query: str,
        passages: Sequence[Mapping[str, object]],
        tool: str,
        *,
        node: str = "",
        seconds: float = 0.0,
    ) -> None:
        """A search inside the system's own process returned these passages (as :attr:`Given.passages`), best first;
        `tool` names what searched."""

    def handed_on(self, query: str) -> None:
        """A tool that was asked this handed on what was told of already: its result is no search of its own."""

    def model_called(self, token: str, what: str, begun: bool) -> None:
        """A model call of the system's began (`begun`), or ended; `token` is its own id, and stands in
        :data:`~.wire.MODEL_CALL` meanwhile. Where no call at the wire stood behind it, it is not recorded, and `what`
        names it as in :meth:`unseen`."""

    def model_started(self, token: str, provider: str, model: str, kind: str) -> None:
        """A model call began of which more is known: who provides the model, its name and its class. It ends by
        :meth:`model_ended`."""

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
        """That call ended: with a reply of this text, by the model of this name, which used these tokens (LangChain's
        ``usage_metadata``; ``None``: it does not say); from the system's own cache; or by an error of this class."""

    def unseen(self, what: str) -> None:
        """Something was asked that no boundary sees, so that it cannot be replayed; `what` names it: ``a model of
        class FakeListChatModel``."""

    def note(self, what: str, text: str) -> None:
        """Leave a remark in the trace."""


class Form(Protocol):
    """A system in the form that it has, ready to answer many questions at the same time."""

    @property
    def kind(self) -> str:
        """What it is, in a word or two for tables: ``LangGraph graph``, ``function``."""

    @property
    def takes_context(self) -> bool:
        """Whether it asks models and searches through :attr:`Observer.context` alone."""

    @property
    def made(self) -> object:
        """The object itself."""

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> Given:
        """Answer one question. It may raise anything.

        Args:
            question: `id`, `text`, `options` (letter → text) and `language`; and `item`, the evaluation's own record
                of it, only in its own process.
            seen: is told what happens meanwhile.

        Raises:
            ragrounds.recorder.errors.AskedPerson: it stopped to ask a person, and nobody was named to answer.
        """


FOUND = "FOUND"
"""The method of the request that asks what a search is to give in place of what it found. Nothing is sent."""
GOING: ContextVar[list[Any] | None] = ContextVar("going", default=None)
"""Where a search that goes on here, and that can be changed, takes what it found and what it is to give."""


def found(seen: Observer, query: str, passages: Sequence[Mapping[str, object]], tool: str, **more: Any) -> None:
    """Tell of a search (:meth:`Observer.found`), and have it changed where that is wanted and can be done."""
    going, watcher = GOING.get(), WATCHER.get()
    if not seen.changes or going is None or watcher is None:
        seen.found(query, passages, tool, **more)
        return
    told = json.dumps({"query": query, "passages": passages, "tool": tool, **more}).encode()
    answer = watcher.exchange_blocking(WireRequest(FOUND, tool, {}, told), lambda grown: WireResponse(500, "", b""))
    if answer is not None and answer.body:
        going.append((passages, json.loads(answer.body)))


def step_here() -> str:
    """The step that this code runs in, for :data:`STEP`: in a node of LangGraph's its path, ``NODE:TASK|NODE:TASK``."""
    module = sys.modules.get("langchain_core.runnables.config")
    known = getattr(module, "var_child_runnable_config", None)
    config = known.get() if known is not None else None
    if not config:
        return STEP.get()
    return str((config.get("metadata") or {}).get("langgraph_checkpoint_ns", ""))
