"""Spans of traces: ``openinference``, in Phoenix's frames and files and in OTLP/JSON (``ragrounds export otel``), and
``langsmith``, runs from its client and its bulk export. A trace is an answer.

Input and output of its first span are question and answer; the names in its input and its metadata identify further
fields (id, options, gold). Its calls of models, retrievers and tools are the steps; a model's call inside another is
the same call recorded twice. Spans of a trace may be anywhere in a file, so their steps are kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct, field

from ragrounds.base.records import CallKind
from ragrounds.extensions.exchange.importers.importer import (
    BadRow,
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
    text_of,
    unpacked,
    usage_of,
)
from ragrounds.extensions.exchange.importers.records import read_records
from ragrounds.extensions.exchange.importers.table import guess_fields, row_with

_CALLS: dict[str, CallKind] = {"llm": "model", "retriever": "search", "tool": "tool"}


_Span: TypeAlias = dict[str, Any]
"""Fields of a row, and ``trace``, ``span``, ``parent``, ``kind``, ``name``, ``times``, ``given``, ``about``."""


class _Trace(Struct):
    first: _Span | None = None
    steps: dict[str, tuple[str, str, ImportedStep]] = field(default_factory=dict)
    """Span → its start, its parent, and the call."""


def _langsmith(run: Mapping[str, Any]) -> Iterator[_Span]:
    gave, name = unpacked(run.get("outputs")), text_of(run.get("name"))
    documents = dict_of(gave).get("documents", gave) if run.get("run_type") == "retriever" else ()
    yield {
        "trace": run.get("trace_id"), "span": run.get("id"), "parent": run.get("parent_run_id"), "name": name,
        "kind": run.get("run_type"), "times": (run.get("start_time"), run.get("end_time")), "passages": documents,
        "given": unpacked(run.get("inputs")), "answer": gave, "error": run.get("error"), "cost": run.get("total_cost"),
        "input_tokens": run.get("prompt_tokens"), "output_tokens": run.get("completion_tokens"),
        "about": dict_of(dict_of(unpacked(run.get("extra"))).get("metadata")),
        "agent": " ".join(filter(None, (name, text_of(run.get("session_id"))[:8]))),
    }  # fmt: skip


def _openinference(record: Mapping[str, Any]) -> Iterator[_Span]:
    for resource in dicts_of(record.get("resourceSpans")):
        for scope in dicts_of(resource.get("scopeSpans")):
            for span in dicts_of(scope.get("spans")):
                values = {
                    text_of(attribute.get("key")): _value(attribute.get("value"))
                    for attribute in dicts_of(span.get("attributes"))
                }
                status = dict_of(span.get("status"))
                yield from _openinference({
                    "context": {"trace_id": span.get("traceId"), "span_id": span.get("spanId")}, "attributes": values,
                    "parent_id": span.get("parentSpanId"), "name": span.get("name"),
                    "start_time": number_of(span.get("startTimeUnixNano")),
                    "end_time": number_of(span.get("endTimeUnixNano")), "status_message": status.get("message"),
                    "status_code": "ERROR" if status.get("code") in (2, "STATUS_CODE_ERROR") else "",
                })  # fmt: skip
    if "resourceSpans" in record:
        return
    entry = _nested(record)
    attrs, context = _nested(dict_of(entry.get("attributes"))), dict_of(entry.get("context"))
    llm, name = dict_of(attrs.get("llm")), entry.get("name")
    tokens, documents = dict_of(llm.get("token_count")), dict_of(attrs.get("retrieval")).get("documents")
    yield {
        "trace": context.get("trace_id"), "span": context.get("span_id"), "parent": entry.get("parent_id"),
        "kind": entry.get("span_kind") or dict_of(dict_of(attrs.get("openinference")).get("span")).get("kind"),
        "name": llm.get("model_name") or name, "times": (entry.get("start_time"), entry.get("end_time")),
        "given": _io(attrs, "input"), "answer": _io(attrs, "output"), "cost": dict_of(llm.get("cost")).get("total"),
        "input_tokens": tokens.get("prompt"), "output_tokens": tokens.get("completion"),
        "error": (entry.get("status_message") or "error") if entry.get("status_code") == "ERROR" else None,
        "passages": list(documents.values()) if isinstance(documents, dict) else documents,
        "about": dict_of(unpacked(attrs.get("metadata"))), "agent": dict_of(attrs.get("agent")).get("name") or name,
    }  # fmt: skip


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values under dotted names as nested objects."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *path, last = key.split(".", 8)
        node: object = nested
        for part in path:
            node = node.setdefault(part, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node[last] = value
    return nested


def _value(value: object) -> object:
    """Return a value of OTLP/JSON."""
    wrapper = dict_of(value)
    if "arrayValue" in wrapper:
        return [_value(member) for member in dicts_of(dict_of(wrapper["arrayValue"]).get("values"))]
    return next(iter(wrapper.values()), None)


def _io(attributes: Mapping[str, Any], end: str) -> object:
    content = dict_of(attributes.get(end))
    return unpacked(content.get("value")) if content.get("mime_type") == "application/json" else content.get("value")


def _words(value: object) -> str:
    """Return the text of an input or output: the last message, an object's only value, or a text."""
    content = dict_of(value)
    if dicts_of(content.get("messages")):
        return text_of(content["messages"][-1])
    if len(content) == 1:
        return _words(next(iter(content.values())))
    return text_of(value)


def _seconds(times: tuple[object, object]) -> float | None:
    try:
        start, end = (time if isinstance(time, float) else datetime.fromisoformat(str(time)).timestamp() * 1e9
                      for time in times)  # fmt: skip
    except (ValueError, OverflowError):
        return None
    return (end - start) / 1e9


def _row(trace: _Trace, location: str) -> ImportedRow | BadRow:
    first, steps = trace.first, trace.steps
    if first is None:
        return BadRow(location, "its first span is not in the file")
    calls = [step for _, parent, step in sorted(steps.values(), key=lambda entry: entry[0])
             if step.kind != "model" or parent not in steps or steps[parent][2].kind != "model"]  # fmt: skip
    fields: dict[str, Any] = {"question": _words(first["given"]), "seconds": _seconds(first["times"])}
    for values in (dict_of(first["given"]), first["about"]):
        fields |= {name: values[column] for name, column in guess_fields(list(values)).items()}
        fields |= {name: values[name] for name in ("choice", "status") if name in values}
    span_fields = {name: first[name] for name in ("agent", "error", "cost", "input_tokens", "output_tokens")}
    fields |= {**span_fields, "answer": _words(first["answer"]), "steps": calls}
    return row_with(
        {name: value for name, value in fields.items() if name not in ("tokens", "passages", "score")}, location
    )


def _reader(spans_of: Callable[[Mapping[str, Any]], Iterator[_Span]]) -> Callable[[ImportFile], Rows]:
    def _rows(file: ImportFile) -> Rows:
        traces: dict[str, _Trace] = {}
        for record in read_records(file.path):
            if isinstance(record, BadRow):
                yield record
                continue
            for span in spans_of(record[1]):
                if not (id := text_of(span["trace"])):
                    yield BadRow(record[0], "a span names its trace")
                    continue
                trace, parent = traces.setdefault(id, _Trace()), text_of(span["parent"])
                if not parent:
                    trace.first = trace.first or span
                if (kind := _CALLS.get(text_of(span["kind"]).lower())) is not None:
                    span_id = text_of(span["span"]) or str(len(trace.steps))
                    passages = passages_of(span["passages"])
                    step = ImportedStep(
                        kind=kind,
                        name=text_of(span["name"]),
                        asked=_words(span["given"])[:2000],
                        passages=passages,
                        text="" if passages else _words(span["answer"]),
                        seconds=_seconds(span["times"]),
                        usage=usage_of(span["input_tokens"], span["output_tokens"])[0],
                        cost=bounded(span["cost"], 1e6, "cost")[0],
                    )
                    trace.steps[span_id] = (str(span["times"][0]), parent, step)
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
