"""What LlamaIndex tells of itself while a system runs that uses it: its searches with their passages, its steps, and
the calls of its models, of which one without a call at the wire is not recorded.

It is told by LlamaIndex's own instrumentation, in whatever thread and task the system works; a context variable says
which attempt it is.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from types import ModuleType

from .loading import when_loaded
from .observer import STEP, Observer, found
from .passages import passages_of
from .wire import MODEL_CALL, ToldCall, model_call

_STEPS = frozenset("retrieve aretrieve synthesize asynthesize postprocess_nodes apostprocess_nodes call acall".split())
"""Methods of LlamaIndex's parts that are a step of an attempt."""
_UUID = 37
"""Characters behind a span's name: a dash and a UUID."""
_LONGEST = 2000


class EngineWatch:
    """One attempt of a system that uses LlamaIndex."""

    def __init__(self, seen: Observer) -> None:
        self.seen = seen
        self.searches = 0
        """Searches that were told of."""


_WATCH: ContextVar[EngineWatch | None] = ContextVar("llama_index_watch", default=None)


@contextlib.contextmanager
def told_by_llama_index(seen: Observer) -> Iterator[None]:
    """Tell of what LlamaIndex does in this context, and in what is begun here."""
    _listen()
    token = _WATCH.set(EngineWatch(seen))
    try:
        yield
    finally:
        _WATCH.reset(token)


@cache
def _listen() -> None:
    when_loaded("llama_index_instrumentation", _add_handlers)


def watched() -> EngineWatch | None:
    """The attempt that runs here; ``None``: none does."""
    return _WATCH.get()


def _add_handlers(module: ModuleType) -> None:
    """Have LlamaIndex tell of its events and spans, for the rest of the process; outside of attempts nobody listens."""
    from llama_index_instrumentation import get_dispatcher
    from llama_index_instrumentation.base import BaseEvent
    from llama_index_instrumentation.event_handlers import BaseEventHandler
    from llama_index_instrumentation.span import BaseSpan
    from llama_index_instrumentation.span_handlers import BaseSpanHandler

    class Events(BaseEventHandler):
        """Hears of searches and of calls to models."""

        @classmethod
        def class_name(cls) -> str:
            """Its name."""
            return "RagroundsEvents"

        def handle(self, event: BaseEvent, **_: object) -> None:
            """Take an event."""
            if (watch := _WATCH.get()) is not None:
                _heard(event, watch)

    class Spans(BaseSpanHandler[BaseSpan]):
        """Hears of steps."""

        @classmethod
        def class_name(cls) -> str:
            """Its name."""
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
            """A span began."""
            _entered(id_, parent_span_id or "")

        def prepare_to_exit_span(
            self, id_: str, bound_args: object, instance: object = None, result: object = None, **_: object
        ) -> None:
            """A span ended."""
            _left(id_, result)

        def prepare_to_drop_span(
            self, id_: str, bound_args: object, instance: object = None, err: BaseException | None = None, **_: object
        ) -> None:
            """A span ended by an error."""
            _left(id_, None, f"{type(err).__name__}: {err}" if err else "it was dropped")

    root = get_dispatcher("root")
    root.add_event_handler(Events())
    root.add_span_handler(Spans())


_BEGINS = frozenset(
    {"LLMChatStartEvent", "LLMCompletionStartEvent", "EmbeddingStartEvent", "SparseEmbeddingStartEvent"}
)
_ENDS = frozenset({"LLMChatEndEvent", "LLMCompletionEndEvent", "EmbeddingEndEvent", "SparseEmbeddingEndEvent"})


def _heard(event: object, watch: EngineWatch) -> None:
    kind, span = type(event).__name__, str(getattr(event, "span_id", None) or "")
    owner = _owner(span)
    if kind == "RetrievalEndEvent":
        asked, nodes = getattr(event, "str_or_query_bundle", ""), getattr(event, "nodes", ())
        watch.searches += 1
        query = asked if isinstance(asked, str) else str(getattr(asked, "query_str", asked))
        found(watch.seen, query, passages_of(nodes), owner or "retriever", node=_nodes.get(STEP.get(), ""))
    elif kind in _BEGINS and not model_call():  # what a call asks of itself is a part of it
        token = ToldCall(span or uuid.uuid4().hex).token
        watch.seen.model_called(token, "", True)
    elif (kind in _ENDS or kind == "ExceptionEvent") and span and model_call() == span:
        MODEL_CALL.get().end()  # type: ignore[union-attr]
        what = "an embedder" if "Embedding" in kind else "a model"
        watch.seen.model_called(span, f"{what} of class {owner or 'unknown'}", False)


_nodes: dict[str, str] = {}
"""Steps that are open → what each is called."""
_before: dict[str, tuple[Observer, str]] = {}
"""Steps that are open → whose they are, and the step around each."""


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
    if isinstance(said := getattr(result, "response", None), str):
        wrote["response"] = said[:_LONGEST]
    elif result is not None and type(result).__name__.endswith("Event"):
        wrote["event"] = type(result).__name__
    seen.left(span, node, wrote, error)


def _owner(span: str) -> str:
    """The class whose method a span is of."""
    return span[:-_UUID].rpartition(".")[0]
