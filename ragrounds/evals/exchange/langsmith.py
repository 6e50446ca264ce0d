"""Traces sent to LangSmith, only by `ragrounds export langsmith --upload`: no variable of the environment sends any."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ragrounds.addresses import check_address
from ragrounds.errors import UserError
from ragrounds.evals.exchange.formats import Export, ExportFormat, Redactor, optional_module
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import Trace, TracedCall, every_trace
from ragrounds.evals.store.traces import steps as steps_of
from ragrounds.records import WITHOUT_ANSWER, Run

_AT_ONCE = 200
"""Runs (in LangSmith's sense: nodes of a trace) in one request."""
_SPACE = uuid.UUID("7b0b8a1e-5f1c-5d0a-9a53-6d2f6f0e9a11")
_KINDS = {"model": "llm", "search": "retriever", "tool": "tool"}


def upload(store: Store, runs: Sequence[Run], *, url: str, key: str, project: str) -> int:
    """Send the traces of some runs; returns how many nodes were sent.

    Ids are hashes of run, question and epoch, so sending again doubles nothing.

    Raises:
        UserError: the server cannot be reached or refuses.
    """
    langsmith = optional_module("langsmith", "to LangSmith")
    problems: list[Exception] = []
    client = langsmith.Client(
        api_url=url,
        api_key=key,
        auto_batch_tracing=False,
        omit_traced_runtime_info=True,
        tracing_sampling_rate=1.0,
        tracing_error_callback=problems.append,
    )
    hide, sent, waiting = Redactor(), 0, list[dict[str, object]]()
    for run in runs:
        for trace in every_trace(store, run):
            nodes = [{**node, "session_name": project} for node in _nodes(trace)]
            waiting += msgspec.json.decode(hide(msgspec.json.encode(nodes).decode("utf-8")))
            if len(waiting) >= _AT_ONCE:
                sent += _ingest(client, waiting, problems, url)
                waiting = []
    return sent + _ingest(client, waiting, problems, url)


def _ingest(client: Any, nodes: list[dict[str, object]], problems: list[Exception], url: str) -> int:
    if nodes:
        try:
            client.batch_ingest_runs(create=nodes)
        except Exception as error:  # the library raises what its transport raised
            problems.append(error)
    if problems:
        raise UserError(f"LangSmith at {url} did not take the traces: {' '.join(str(problems[0]).split())[:300]}")
    return len(nodes)


def _nodes(trace: Trace) -> Iterator[dict[str, object]]:
    attempt, run = trace.attempt, trace.run
    key = f"{run.id}\0{trace.question.id}\0{attempt.epoch}" + (f"\0{attempt.retry}" if attempt.retry else "")
    start = attempt.at or run.created
    root = _node(key, (), start, start + attempt.seconds, run.agent, "chain")
    yield root | {
        "inputs": {"question": trace.question.text, "options": trace.question.options},
        "outputs": {"answer": attempt.text},
        "error": (attempt.reason or attempt.status) if attempt.status in WITHOUT_ANSWER else None,
        "extra": {
            "metadata": {
                "run": run.id,
                "question_id": trace.question.id,
                "status": attempt.status,
                "retry": attempt.retry,
                "cost_uncached": attempt.cost_uncached,
                **{f"{score.scorer}.score": score.value for score in trace.scores},
            }
        },
    }
    for place, (step, traced) in enumerate(zip(steps_of(attempt.events), trace.steps, strict=True)):
        begun = step.at or start
        made = _node(key, (place,), begun, begun + (step.seconds or 0.0), step.node or "none", "chain", root)
        yield made | {"inputs": {}, "outputs": dict(step.changes), "error": step.error or None}
        for number, call in enumerate(traced.calls):
            at = call.call.at or begun
            kind = _KINDS.get(call.call.kind, "chain")
            child = _node(key, (place, number), at, at + call.call.seconds, call.call.actor, kind, made)
            yield child | _said(call)


def _node(
    key: str, place: tuple[int, ...], start: float, end: float, name: str, kind: str, parent: Any = None
) -> dict[str, object]:
    id = str(uuid.uuid5(_SPACE, f"{key}\0{place}"))
    own = f"{_time(start):%Y%m%dT%H%M%S%fZ}{id}"
    return {
        "id": id,
        "trace_id": parent["trace_id"] if parent else id,
        "parent_run_id": parent["id"] if parent else None,
        "dotted_order": f"{parent['dotted_order']}.{own}" if parent else own,
        "name": name,
        "run_type": kind,
        "start_time": _time(start).isoformat(),
        "end_time": _time(end).isoformat(),
    }


def _said(traced: TracedCall) -> dict[str, object]:
    call = traced.call
    inputs: dict[str, object] = {}
    outputs: dict[str, object] = {}
    if traced.asked is not None:
        inputs["messages"] = [{"role": m.role, "content": m.content} for m in traced.asked.messages]
    if traced.searched is not None:
        inputs["query"] = traced.searched.query
        outputs["documents"] = [
            {"page_content": p.text, "type": "Document", "metadata": {"id": p.id, "title": p.title, "score": p.score}}
            for p in traced.passages
        ]
    if traced.reply is not None:
        outputs["messages"] = [{"role": "assistant", "content": traced.reply.text}]
    if call.usage is not None:
        total = call.usage.input + call.usage.output
        outputs["usage_metadata"] = {
            "input_tokens": call.usage.input,
            "output_tokens": call.usage.output,
            "total_tokens": total,
        }
    return {"inputs": inputs, "outputs": outputs, "error": call.error or None}


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class LangSmithOptions(Struct, frozen=True):
    """Where the traces go, and that they may."""

    upload: Annotated[bool, Meta(description="Really send them: questions, answers, passages leave here.")] = False
    project: Annotated[str, Meta(description="The project there.")] = "ragrounds"
    url: Annotated[str, Meta(description="The server.")] = "https://api.smith.langchain.com"


def _check(options: LangSmithOptions, to_file: bool) -> None:
    check_address(options.url, "set LANGSMITH_API_KEY")
    if not options.upload:
        raise UserError(f"This sends questions, answers and passages to {options.url}. Give --upload if you want that.")
    if not os.environ.get("LANGSMITH_API_KEY"):
        raise UserError("LANGSMITH_API_KEY is not set: LangSmith needs a key.")


def _send(export: Export[LangSmithOptions]) -> str:
    project, url, key = export.options.project, export.options.url, os.environ["LANGSMITH_API_KEY"]
    return f"{upload(export.store, export.runs, url=url, key=key, project=project):,} nodes sent to {project} at {url}"


FORMAT = ExportFormat(
    name="langsmith",
    summary="Send traces to LangSmith. Needs --upload and the key in LANGSMITH_API_KEY.",
    writes="nothing",
    options=LangSmithOptions,
    send=_send,
    check=_check,
)
