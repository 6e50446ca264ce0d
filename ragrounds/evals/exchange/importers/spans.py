"""Spans of traces: ``openinference``, in Phoenix's frames and files and in OTLP/JSON (``ragrounds export otel``), and
``langsmith``, runs as its client and its bulk export give them. A trace is an answer.

What its first span was given and gave are question and answer; the names of what it was given, and of its metadata, say
what else is known (id, options, gold). Its calls of models, retrievers and tools are the steps; a model's call inside
another is the same call seen twice. Spans of a trace may stand anywhere in a file, so that their steps are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ragrounds.evals.exchange.importers.importer import (
    BadRow,
    GivenPassage,
    ImportedRow,
    ImportedStep,
    Importer,
    ImportFile,
    Rows,
    bounded,
    dict_of,
    dicts_of,
    number_of,
    passages_of,
    sums_of,
    text_of,
    unpacked,
    usage_of,
)
from ragrounds.evals.exchange.importers.records import records
from ragrounds.evals.exchange.importers.table import guessed, row_of

_CALLS: dict[str, Literal["model", "search", "tool"]] = {"llm": "model", "retriever": "search", "tool": "tool"}


class _Span(Struct, kw_only=True):
    trace: str
    id: str
    parent: str
    kind: str
    name: str
    times: tuple[object, object]
    given: object
    gave: object
    error: str
    tokens: tuple[object, object]
    cost: object
    passages: tuple[GivenPassage, ...] = ()
    about: Mapping[str, Any] = {}
    agent: str = ""


class _Trace(Struct):
    first: _Span | None = None
    steps: list[tuple[str, str, str, ImportedStep]] = field(default_factory=list)
    """Start, id, parent, call."""


def _langsmith(run: Mapping[str, Any]) -> Iterator[_Span]:
    given, gave = unpacked(run.get("inputs")), unpacked(run.get("outputs"))
    found = dict_of(gave).get("documents", gave) if run.get("run_type") == "retriever" else ()
    project, name = text_of(run.get("session_id")), text_of(run.get("name"))
    yield _Span(
        trace=text_of(run.get("trace_id")), id=text_of(run.get("id")), parent=text_of(run.get("parent_run_id")),
        kind=text_of(run.get("run_type")), name=name, times=(run.get("start_time"), run.get("end_time")),
        given=given, gave=gave, error=text_of(run.get("error")), cost=run.get("total_cost"),
        tokens=(run.get("prompt_tokens"), run.get("completion_tokens")), passages=passages_of(found),
        about=dict_of(dict_of(unpacked(run.get("extra"))).get("metadata")),
        agent=" ".join(filter(None, (name, project[:8]))),
    )  # fmt: skip


def _openinference(record: Mapping[str, Any]) -> Iterator[_Span]:
    for resource in dicts_of(record.get("resourceSpans")):
        for scope in dicts_of(resource.get("scopeSpans")):
            for span in dicts_of(scope.get("spans")):
                values = {text_of(one.get("key")): _value(one.get("value")) for one in dicts_of(span.get("attributes"))}
                status = dict_of(span.get("status"))
                yield from _openinference({
                    "context.trace_id": span.get("traceId"), "context.span_id": span.get("spanId"),
                    "parent_id": span.get("parentSpanId"), "name": span.get("name"),
                    "start_time": number_of(span.get("startTimeUnixNano")),
                    "end_time": number_of(span.get("endTimeUnixNano")),
                    "status_code": "ERROR" if status.get("code") in (2, "STATUS_CODE_ERROR") else "",
                    "status_message": status.get("message"), "attributes": values,
                })  # fmt: skip
    if "resourceSpans" in record:
        return
    whole = _nested(record)
    said, context = _nested(dict_of(whole.get("attributes"))), dict_of(whole.get("context"))
    llm, tokens = dict_of(said.get("llm")), dict_of(dict_of(said.get("llm")).get("token_count"))
    documents = dict_of(said.get("retrieval")).get("documents")
    failed = whole.get("status_code") == "ERROR"
    yield _Span(
        trace=text_of(context.get("trace_id")), id=text_of(context.get("span_id")),
        parent=text_of(whole.get("parent_id")), name=text_of(llm.get("model_name") or whole.get("name")),
        kind=text_of(whole.get("span_kind") or dict_of(dict_of(said.get("openinference")).get("span")).get("kind")),
        times=(whole.get("start_time"), whole.get("end_time")), given=_io(said, "input"), gave=_io(said, "output"),
        cost=dict_of(llm.get("cost")).get("total"), tokens=(tokens.get("prompt"), tokens.get("completion")),
        error=(text_of(whole.get("status_message")) or "error") if failed else "",
        passages=passages_of(list(documents.values()) if isinstance(documents, dict) else documents),
        about=dict_of(unpacked(said.get("metadata"))),
        agent=text_of(dict_of(said.get("agent")).get("name") or whole.get("name")),
    )  # fmt: skip


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values under dotted names as objects in objects."""
    made: dict[str, Any] = {}
    for key, value in values.items():
        *path, last = key.split(".", 8)
        place: object = made
        for part in path:
            place = place.setdefault(part, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[last] = value
    return made


def _value(value: object) -> object:
    """A value of OTLP/JSON."""
    held = dict_of(value)
    if "arrayValue" in held:
        return [_value(one) for one in dicts_of(dict_of(held["arrayValue"]).get("values"))]
    return next(iter(held.values()), None)


def _io(said: Mapping[str, Any], end: str) -> object:
    held = dict_of(said.get(end))
    return unpacked(held.get("value")) if held.get("mime_type") == "application/json" else held.get("value")


def _words(value: object) -> str:
    """The text of what was given or came out: the last message, an object's one value, or a text."""
    held = dict_of(value)
    if dicts_of(held.get("messages")):
        return text_of(held["messages"][-1])
    if len(held) == 1:
        return _words(next(iter(held.values())))
    return text_of(value)


def _seconds(times: tuple[object, object]) -> float | None:
    try:
        start, end = (one if isinstance(one, float) else datetime.fromisoformat(str(one)).timestamp() * 1e9
                      for one in times)  # fmt: skip
    except (ValueError, OverflowError):
        return None
    return (end - start) / 1e9


def _step(span: _Span, kind: Literal["model", "search", "tool"]) -> ImportedStep:
    text = "" if span.passages else _words(span.gave)
    return ImportedStep(kind=kind, name=span.name, asked=_words(span.given)[:2000], text=text, passages=span.passages,
                        usage=usage_of(*span.tokens)[0], seconds=_seconds(span.times),
                        cost=bounded(span.cost, 1e6, "cost")[0])  # fmt: skip


def _row(trace: _Trace, place: str) -> ImportedRow | BadRow:
    first = trace.first
    if first is None:
        return BadRow(place, "its first span is not in the file")
    steps = {id: (parent, step) for _, id, parent, step in sorted(trace.steps, key=lambda one: one[0])}
    calls = tuple(step for parent, step in steps.values()
                  if step.kind != "model" or parent not in steps or steps[parent][1].kind != "model")  # fmt: skip
    known: dict[str, Any] = {}
    for about in (dict_of(first.given), first.about):
        known |= {name: about[column] for name, column in guessed(list(about)).items()}
    if "choice" in first.about:
        known["choice"] = first.about["choice"]
    known = {"question": _words(first.given), "seconds": _seconds(first.times), **known}
    known |= {"answer": _words(first.gave), "agent": first.agent, "error": first.error, "cost": first.cost}
    known |= {"input_tokens": first.tokens[0], "output_tokens": first.tokens[1], "dataset": _last(known.get("dataset"))}
    row = row_of({key: one for key, one in known.items() if key not in ("tokens", "steps", "passages", "score")},
                 dict(zip(known, known, strict=True)), place)  # fmt: skip
    if isinstance(row, BadRow):
        return row
    usage, cost = sums_of(calls)
    return replace(row, steps=calls, usage=row.usage or usage, cost=cost if row.cost is None else row.cost)


def _last(dataset: object) -> str:
    return text_of(dataset).rpartition("/")[2]


def _reader(spans_of: Callable[[Mapping[str, Any]], Iterator[_Span]]) -> Callable[[ImportFile], Rows]:
    def _rows(file: ImportFile) -> Rows:
        traces: dict[str, _Trace] = {}
        for one in records(file.path):
            if isinstance(one, BadRow):
                yield one
                continue
            for span in spans_of(one[1]):
                if not span.trace:
                    yield BadRow(one[0], "a span names its trace")
                    continue
                trace = traces.setdefault(span.trace, _Trace())
                if not span.parent:
                    trace.first = trace.first or span
                if (kind := _CALLS.get(span.kind.lower())) is not None:
                    trace.steps.append((str(span.times[0]), span.id, span.parent, _step(span, kind)))
        for id, trace in traces.items():
            yield _row(trace, f"trace {id[:16]}")

    return _rows


OPENINFERENCE = Importer(
    name="openinference",
    summary="OpenInference spans: Phoenix's frames and files, OTLP/JSON (ragrounds export otel).",
    recognises=lambda file: (
        "resourceSpans" in file.first
        or {"context.trace_id", "parent_id"} <= set(file.first)
        or {"context", "attributes", "parent_id"} <= set(file.first)
    ),
    rows=_reader(_openinference),
)
LANGSMITH = Importer(
    name="langsmith",
    summary="LangSmith's runs; its experiments' frames are tables.",
    recognises=lambda file: {"run_type", "trace_id", "inputs"} <= set(file.first),
    rows=_reader(_langsmith),
)
