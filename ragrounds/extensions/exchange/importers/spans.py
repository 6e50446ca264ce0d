"""Spans of traces: ``openinference``, in Phoenix's frames and files and in OTLP/JSON (``ragrounds export otel``), and
``langsmith``, runs as its client and its bulk export give them. A trace is an answer.

What its first span was given and gave are question and answer; the names of what it was given, and of its metadata, say
what else is known (id, options, gold). Its calls of models, retrievers and tools are the steps; a model's call inside
another is the same call seen twice. Spans of a trace may stand anywhere in a file, so that their steps are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

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
from ragrounds.extensions.exchange.importers.table import guessed, row_with

_CALLS: dict[str, Literal["model", "search", "tool"]] = {"llm": "model", "retriever": "search", "tool": "tool"}


_Span: TypeAlias = dict[str, Any]
"""The fields of a row, and ``trace``, ``span``, ``parent``, ``kind``, ``name``, ``times``, ``given``, ``about``."""


class _Trace(Struct):
    first: _Span | None = None
    steps: dict[str, tuple[str, str, ImportedStep]] = field(default_factory=dict)
    """Span → its start, its parent, and the call."""


def _langsmith(run: Mapping[str, Any]) -> Iterator[_Span]:
    gave, name = unpacked(run.get("outputs")), text_of(run.get("name"))
    found = dict_of(gave).get("documents", gave) if run.get("run_type") == "retriever" else ()
    yield {
        "trace": run.get("trace_id"), "span": run.get("id"), "parent": run.get("parent_run_id"), "name": name,
        "kind": run.get("run_type"), "times": (run.get("start_time"), run.get("end_time")), "passages": found,
        "given": unpacked(run.get("inputs")), "answer": gave, "error": run.get("error"), "cost": run.get("total_cost"),
        "input_tokens": run.get("prompt_tokens"), "output_tokens": run.get("completion_tokens"),
        "about": dict_of(dict_of(unpacked(run.get("extra"))).get("metadata")),
        "agent": " ".join(filter(None, (name, text_of(run.get("session_id"))[:8]))),
    }  # fmt: skip


def _openinference(record: Mapping[str, Any]) -> Iterator[_Span]:
    for resource in dicts_of(record.get("resourceSpans")):
        for scope in dicts_of(resource.get("scopeSpans")):
            for span in dicts_of(scope.get("spans")):
                values = {text_of(one.get("key")): _value(one.get("value")) for one in dicts_of(span.get("attributes"))}
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
    whole = _nested(record)
    said, context = _nested(dict_of(whole.get("attributes"))), dict_of(whole.get("context"))
    llm, name = dict_of(said.get("llm")), whole.get("name")
    tokens, documents = dict_of(llm.get("token_count")), dict_of(said.get("retrieval")).get("documents")
    yield {
        "trace": context.get("trace_id"), "span": context.get("span_id"), "parent": whole.get("parent_id"),
        "kind": whole.get("span_kind") or dict_of(dict_of(said.get("openinference")).get("span")).get("kind"),
        "name": llm.get("model_name") or name, "times": (whole.get("start_time"), whole.get("end_time")),
        "given": _io(said, "input"), "answer": _io(said, "output"), "cost": dict_of(llm.get("cost")).get("total"),
        "input_tokens": tokens.get("prompt"), "output_tokens": tokens.get("completion"),
        "error": (whole.get("status_message") or "error") if whole.get("status_code") == "ERROR" else None,
        "passages": list(documents.values()) if isinstance(documents, dict) else documents,
        "about": dict_of(unpacked(said.get("metadata"))), "agent": dict_of(said.get("agent")).get("name") or name,
    }  # fmt: skip


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
    passages = passages_of(span["passages"])
    return ImportedStep(kind=kind, name=text_of(span["name"]), asked=_words(span["given"])[:2000], passages=passages,
                        text="" if passages else _words(span["answer"]), seconds=_seconds(span["times"]),
                        usage=usage_of(span["input_tokens"], span["output_tokens"])[0],
                        cost=bounded(span["cost"], 1e6, "cost")[0])  # fmt: skip


def _row(trace: _Trace, place: str) -> ImportedRow | BadRow:
    first, steps = trace.first, trace.steps
    if first is None:
        return BadRow(place, "its first span is not in the file")
    calls = [step for _, parent, step in sorted(steps.values(), key=lambda one: one[0])
             if step.kind != "model" or parent not in steps or steps[parent][2].kind != "model"]  # fmt: skip
    known: dict[str, Any] = {"question": _words(first["given"]), "seconds": _seconds(first["times"])}
    for about in (dict_of(first["given"]), first["about"]):
        known |= {name: about[column] for name, column in guessed(list(about)).items()}
        known |= {name: about[name] for name in ("choice", "status") if name in about}
    own = {name: first[name] for name in ("agent", "error", "cost", "input_tokens", "output_tokens")}
    known |= {**own, "answer": _words(first["answer"]), "steps": calls}
    return row_with({name: one for name, one in known.items() if name not in ("tokens", "passages", "score")}, place)


def _reader(spans_of: Callable[[Mapping[str, Any]], Iterator[_Span]]) -> Callable[[ImportFile], Rows]:
    def _rows(file: ImportFile) -> Rows:
        traces: dict[str, _Trace] = {}
        for one in read_records(file.path):
            if isinstance(one, BadRow):
                yield one
                continue
            for span in spans_of(one[1]):
                if not (id := text_of(span["trace"])):
                    yield BadRow(one[0], "a span names its trace")
                    continue
                trace, parent = traces.setdefault(id, _Trace()), text_of(span["parent"])
                if not parent:
                    trace.first = trace.first or span
                if (kind := _CALLS.get(text_of(span["kind"]).lower())) is not None:
                    called = text_of(span["span"]) or str(len(trace.steps))
                    trace.steps[called] = (str(span["times"][0]), parent, _step(span, kind))
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
