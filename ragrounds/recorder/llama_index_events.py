"""Events that LlamaIndex emits while a system uses it: searches with passages, steps, and model calls.

A model call without an HTTP call is not recorded. The events come from LlamaIndex's own instrumentation, in any thread
and task of the system. A context variable identifies the attempt.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from types import ModuleType

from .loading import when_loaded
from .observer import STEP, Observer, report_search
from .passages import passages_of
from .wire import MODEL_CALL, ReportedCall, model_call, setting

_STEPS = frozenset("retrieve aretrieve synthesize asynthesize postprocess_nodes apostprocess_nodes call acall".split())
"""Methods of LlamaIndex's components that count as a step of an attempt."""
_UUID = 37
"""Number of characters after a span's name: a dash and a UUID."""
_MAX_SHOWN = 2000


class EngineWatch:
    """One attempt of a system that uses LlamaIndex."""

    def __init__(self, seen: Observer) -> None:
        self.seen = seen
        self.searches = 0
        """Number of reported searches."""


_WATCH: ContextVar[EngineWatch | None] = ContextVar("llama_index_watch", default=None)


@contextlib.contextmanager
def observe_llama_index(seen: Observer) -> Iterator[None]:
    """Report the events of LlamaIndex in this context, and in tasks that start in it."""
    _listen()
    with setting(_WATCH, EngineWatch(seen)):
        yield


@cache
def _listen() -> None:
    when_loaded("llama_index_instrumentation", _add_handlers)


def watched() -> EngineWatch | None:
    """Return the attempt that runs in this context, or ``None``."""
    return _WATCH.get()


def _add_handlers(module: ModuleType) -> None:
    """Register handlers of LlamaIndex's events and spans for the rest of the process. Outside of attempts they do
    nothing.
    """
    from llama_index_instrumentation import get_dispatcher
    from llama_index_instrumentation.base import BaseEvent
    from llama_index_instrumentation.event_handlers import BaseEventHandler
    from llama_index_instrumentation.span import BaseSpan
    from llama_index_instrumentation.span_handlers import BaseSpanHandler

    class Events(BaseEventHandler):
        """Handler of searches and of model calls."""

        @classmethod
        def class_name(cls) -> str:
            """Return the handler's name."""
            return "RagroundsEvents"

        def handle(self, event: BaseEvent, **_: object) -> None:
            """Handle an event."""
            if (watch := _WATCH.get()) is not None:
                _handle_event(event, watch)

    class Spans(BaseSpanHandler[BaseSpan]):
        """Handler of steps."""

        @classmethod
        def class_name(cls) -> str:
            """Return the handler's name."""
            return "RagroundsSpans"

        def new_span(
            self,
            id_: str,
            bound_args: object,
            instance: object = None,
            parent_span_id: str | None = None,
            tags: object = None,
            **_: object,
        ) -> None:
            """Report that a span began."""
            _entered(id_, parent_span_id or "")

        def prepare_to_exit_span(
            self, id_: str, bound_args: object, instance: object = None, result: object = None, **_: object
        ) -> None:
            """Report that a span ended."""
            _left(id_, result)

        def prepare_to_drop_span(
            self, id_: str, bound_args: object, instance: object = None, err: BaseException | None = None, **_: object
        ) -> None:
            """Report that a span ended with an error."""
            _left(id_, None, f"{type(err).__name__}: {err}" if err else "it was dropped")

    root = get_dispatcher("root")
    root.add_event_handler(Events())
    root.add_span_handler(Spans())


_BEGINS = frozenset(
    {"LLMChatStartEvent", "LLMCompletionStartEvent", "EmbeddingStartEvent", "SparseEmbeddingStartEvent"}
)
_ENDS = frozenset({"LLMChatEndEvent", "LLMCompletionEndEvent", "EmbeddingEndEvent", "SparseEmbeddingEndEvent"})


def _handle_event(event: object, watch: EngineWatch) -> None:
    kind, span = type(event).__name__, str(getattr(event, "span_id", None) or "")
    owner = span[:-_UUID].rpartition(".")[0]  # the class whose method the span belongs to
    if kind == "RetrievalEndEvent":
        query, nodes = getattr(event, "str_or_query_bundle", ""), getattr(event, "nodes", ())
        watch.searches += 1
        query = str(getattr(query, "query_str", query))
        report_search(watch.seen, query, passages_of(nodes), owner or "retriever", node=_nodes.get(STEP.get(), ""))
    elif kind in _BEGINS and not model_call():  # a nested call is a part of the outer call
        token = ReportedCall(span or uuid.uuid4().hex).token
        watch.seen.model_called(token, "", True)
    elif (kind in _ENDS or kind == "ExceptionEvent") and span and model_call() == span:
        MODEL_CALL.get().end()  # type: ignore[union-attr]
        kind_of_model = "an embedder" if "Embedding" in kind else "a model"
        watch.seen.model_called(span, f"{kind_of_model} of class {owner or 'unknown'}", False)


_nodes: dict[str, str] = {}
"""Open steps → their names."""
_before: dict[str, tuple[Observer, str]] = {}
"""Open steps → their observer, and the enclosing step of each."""


def _entered(span: str, parent: str) -> None:
    watch = _WATCH.get()
    if watch is None:
        return
    owner, _, method = span[:-_UUID].rpartition(".")
    in_workflow = parent[:-_UUID].endswith(".run")
    if method.startswith("_") or not (method in _STEPS or in_workflow):
        return
    node = method if in_workflow else owner
    _before[span], _nodes[span] = (watch.seen, STEP.get()), node
    watch.seen.entered(span, node)
    STEP.set(span)


def _left(span: str, result: object, error: str = "") -> None:
    if span not in _before:
        return
    (seen, around), node = _before.pop(span), _nodes.pop(span)
    if STEP.get() == span:
        STEP.set(around)
    wrote: dict[str, object] = {}
    if isinstance(response := getattr(result, "response", None), str):
        wrote["response"] = response[:_MAX_SHOWN]
    elif result is not None and type(result).__name__.endswith("Event"):
        wrote["event"] = type(result).__name__
    seen.left(span, node, wrote, error)
