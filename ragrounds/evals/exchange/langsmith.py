"""Runs sent to a LangSmith server: attempts as trees of its runs, scores as feedback on them.

Its multipart form is written here and not by its client: that sends in the background, tells nobody what a server
refused, and is switched by variables of the environment. Ids are made from time and place in a trace, as version 7 of
RFC 9562 has them, so that sending again doubles nothing.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ragrounds.addresses import check_address
from ragrounds.errors import UserError
from ragrounds.evals.exchange.delivery import Delivery, Refusal, in_batches
from ragrounds.evals.exchange.formats import Export, ExportFormat
from ragrounds.evals.exchange.openinference import as_function, retrieved
from ragrounds.evals.exchange.trace_nodes import (
    TraceCleaner,
    TraceNode,
    by_judge,
    node_digest,
    score_facts,
    score_words,
    trace_nodes,
)
from ragrounds.evals.store.traces import Trace
from ragrounds.http import HttpAnswer, read_json
from ragrounds.records import Score, Usage

Fields = dict[str, object]
_MOST, _LARGEST = 200, 4_000_000
"""Nodes, and bytes, in one request."""
_KINDS = {
    "attempt": "chain",
    "step": "chain",
    "model": "llm",
    "embedding": "embedding",
    "search": "retriever",
    "tool": "tool",
}
_PARTS = ("inputs", "outputs", "extra", "error")
"""Fields of a run that stand in parts of their own."""
_BOUNDARY = "ragrounds-7f1d2c9ab04e"
"""It begins a line, which no JSON text holds."""


def trace_fields(trace: Trace, project: str) -> Iterator[Fields]:
    """The nodes of a clean attempt as LangSmith's runs, each after the one that holds it."""
    made: dict[tuple[int, ...], Fields] = {}
    for node in trace_nodes(trace):
        above = None if node.parent is None else made[node.parent]
        id = str(_id(node.start, node_digest(trace, node.place, project)))
        own = f"{_time(node.start):%Y%m%dT%H%M%S%fZ}{id}"
        made[node.place] = {
            "id": id,
            "trace_id": above["trace_id"] if above else id,
            "parent_run_id": above["id"] if above else None,
            "dotted_order": f"{above['dotted_order']}.{own}" if above else own,
            "session_name": project,
            "name": node.model if node.kind == "model" else node.name,
            "run_type": _KINDS[node.kind],
            "start_time": _time(node.start).isoformat(),
            "end_time": _time(node.end).isoformat(),
            "inputs": _inputs(trace, node),
            "outputs": _outputs(trace, node),
            "extra": {"metadata": _metadata(trace, node)},
            "error": node.error or None,
        }
        yield made[node.place]


def feedback_fields(trace: Trace, score: Score, project: str, session: str) -> Fields:
    """A score of a clean attempt as LangSmith's feedback on its trace; `session` is the project's id there."""
    start = trace.attempt.at or trace.run.created
    digest = node_digest(trace, (), project)
    root = _id(start, digest)
    return {
        "id": str(uuid.uuid5(root, score.scorer)),
        "run_id": str(root),
        "trace_id": str(root),
        "session_id": session or None,
        "start_time": _time(start).isoformat(),
        "created_at": _time(start + trace.attempt.seconds).isoformat(),
        "modified_at": _time(start + trace.attempt.seconds).isoformat(),
        "key": score.scorer,
        # It takes four decimals and refuses more.
        "score": None if score.value is None else round(score.value, 4),
        "value": score.answer_status,
        "comment": score_words(score, trace.gold),
        "feedback_source": {"type": "model" if by_judge(score) else "api", "metadata": score_facts(score)},
    }


def multipart(parts: Sequence[tuple[str, bytes]]) -> bytes:
    """The body of a request of named JSON parts."""
    head = 'Content-Disposition: form-data; name="{}"\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n'
    made = [f"--{_BOUNDARY}\r\n{head.format(name, len(data))}".encode() + data + b"\r\n" for name, data in parts]
    return b"".join(made) + f"--{_BOUNDARY}--\r\n".encode()


def run_parts(fields: Mapping[str, object]) -> list[tuple[str, bytes]]:
    """The parts of one run."""
    name = f"post.{fields['id']}"
    own = {key: value for key, value in fields.items() if key not in _PARTS}
    more = [(f"{name}.{key}", fields[key]) for key in _PARTS if fields[key] is not None]
    return [(key, msgspec.json.encode(value)) for key, value in [(name, own), *more]]


def push(export: Export[LangSmithOptions], key: str) -> Iterator[str]:
    """Send runs, then feedback; yields what became of each.

    Raises:
        UserError: the server cannot be reached, or takes none of them.
    """
    place, project, cleaner = export.options.endpoint.rstrip("/"), export.options.project, TraceCleaner()
    own = {"x-api-key": key}
    form = {**own, "Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}
    session = _Session()
    opened = Delivery[Fields](
        f"{place}/sessions?upsert=true",
        "projects",
        lambda items: msgspec.json.encode(items[0]),
        headers={**own, "Content-Type": "application/json"},
        secrets=[key],
        read=session.read,
    )
    opened.deliver([[{"name": project}]])

    scores: list[list[tuple[str, bytes]]] = []

    def _runs() -> Iterator[list[tuple[str, bytes]]]:
        for trace in cleaner.traces(export.store, export.runs):
            for score in trace.scores:
                fields = feedback_fields(trace, score, project, session.id)
                scores.append([(f"feedback.{fields['id']}", msgspec.json.encode(fields))])
            for fields in trace_fields(trace, project):
                yield run_parts(fields)

    for what, items in (("runs", _runs()), ("scores", scores)):
        delivery = Delivery[list[tuple[str, bytes]]](
            f"{place}/runs/multipart",
            what,
            lambda some: multipart([part for parts in some for part in parts]),
            headers=form,
            secrets=[key],
            progress=export.progress,
        )
        delivery.deliver(in_batches(items, _MOST, lambda parts: sum(len(data) for _, data in parts), _LARGEST))
        yield delivery.words()


class _Session:
    """The project's id, as the server gives it; feedback without it is not found by newer ones."""

    id = ""

    def read(self, answer: HttpAnswer) -> Refusal | None:
        try:
            found = read_json(answer.body)
        except ValueError:
            return None
        given = found.get("id") if isinstance(found, dict) else None
        self.id = given if isinstance(given, str) and len(given) < 100 else ""
        return None


def _id(start: float, digest: bytes) -> uuid.UUID:
    """An id of version 7: milliseconds, then what is hashed."""
    whole = int.from_bytes((max(0, int(start * 1000)) & (1 << 48) - 1).to_bytes(6, "big") + digest[:10], "big")
    return uuid.UUID(int=whole & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62)


def _inputs(trace: Trace, node: TraceNode) -> Fields:
    if node.kind == "attempt":
        return {"question": trace.question.text, "options": trace.question.options}
    asked = node.call.asked if node.call else None
    if asked is not None and node.kind != "tool":
        tools: Fields = {"tools": [as_function(tool) for tool in asked.tools]} if asked.tools else {}
        return {"messages": node.input, **tools}
    if node.kind == "search":
        return {"query": node.input, **node.parameters}
    return {} if node.input is None else {"input": node.input}


def _outputs(trace: Trace, node: TraceNode) -> Fields:
    call = node.call
    if node.kind == "attempt":
        return {"answer": node.output, "choice": trace.attempt.choice or None}
    if node.kind == "search" and call is not None:
        return {"documents": [retrieved(passage) for passage in call.passages]}
    made: Fields = {}
    if call is not None and call.reply is not None and node.kind != "tool":
        made["messages"] = [node.output]
    elif isinstance(node.output, dict):
        made |= node.output
    elif node.output is not None:
        made["output"] = node.output
    if node.usage is not None:
        made["usage_metadata"] = _usage(node.usage, node.cost)
    return made


def _usage(usage: Usage, cost: float | None) -> Fields:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "input_token_details": {"cache_read": usage.cached},
        "output_token_details": {"reasoning": usage.reasoning},
        **({} if cost is None else {"total_cost": cost}),
    }


def _metadata(trace: Trace, node: TraceNode) -> Fields:
    if node.kind == "attempt":
        return {**node.facts, "identity": trace.run.identity}
    if node.kind not in ("model", "embedding"):
        return node.facts
    named = {"ls_temperature": "temperature", "ls_max_tokens": "max_tokens", "ls_stop": "stop"}
    known = {name: node.parameters[key] for name, key in named.items() if key in node.parameters}
    model: Fields = {"ls_provider": node.provider, "ls_model_name": node.model}
    return {**node.facts, **model, **known, "ls_invocation_params": node.parameters}


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class LangSmithOptions(Struct, frozen=True):
    """Which server, and which of its projects."""

    endpoint: Annotated[
        str, Meta(description="Send to this LangSmith server, such as https://api.smith.langchain.com; questions, "
                              "answers and passages go there. Its key is read from LANGSMITH_API_KEY.")
    ] = ""  # fmt: skip
    project: Annotated[str, Meta(description="The project there.")] = "ragrounds"


def _key() -> str:
    return os.environ.get("LANGSMITH_API_KEY", "").strip()


def _check(options: LangSmithOptions, to_file: bool) -> None:
    check_address(options.endpoint, "set LANGSMITH_API_KEY")
    if not options.endpoint:
        raise UserError("Say where LangSmith is: --endpoint https://api.smith.langchain.com. Nothing was sent.")
    if not _key():
        raise UserError("LANGSMITH_API_KEY is not set: LangSmith needs a key.")


def _send(export: Export[LangSmithOptions]) -> str:
    return f"{'; '.join(push(export, _key()))}: {export.options.endpoint}, project {export.options.project}"


FORMAT = ExportFormat(
    name="langsmith",
    summary="Traces and scores sent to a LangSmith server. Needs --endpoint, and the key in LANGSMITH_API_KEY.",
    writes="nothing",
    options=LangSmithOptions,
    send=_send,
    check=_check,
)
