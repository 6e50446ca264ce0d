"""Attributes of an attempt's nodes by the OpenInference conventions, which Phoenix and others read."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ragrounds.base.records import Message, Passage
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceNode, replied

PROJECT = "openinference.project.name"
"""Resource attribute that identifies a project in Phoenix."""
_KINDS = {
    "attempt": "AGENT",
    "step": "CHAIN",
    "model": "LLM",
    "embedding": "EMBEDDING",
    "search": "RETRIEVER",
    "tool": "TOOL",
}


def openinference(trace: Trace, node: TraceNode) -> dict[str, object]:
    """Return the attributes of one node of a clean trace: texts and numbers; ``None`` is left out.

    The passages of a search are in its output, too: not all servers support documents.
    """
    usage = node.usage
    tokens = usage and {
        "prompt": usage.input,
        "completion": usage.output,
        "total": usage.total,
        "prompt_details.cache_read": usage.cached,
        "completion_details.reasoning": usage.reasoning,
    }
    passages = node.call.passages if node.call else ()
    attributes = {
        "openinference.span.kind": _KINDS[node.kind],
        "session.id": trace.run.id,
        "input": _value(node.input),
        "output": _value([_langchain_document(passage) for passage in passages] or node.output),
        "llm.token_count": tokens or {},
        "llm.cost.total": node.cost,
        **_attributes_of_kind(trace, node),
        "retrieval.documents": [{"document": _document(passage)} for passage in passages],
        "metadata": _json(node.facts),
    }
    return dict(_flattened(attributes))


def _attributes_of_kind(trace: Trace, node: TraceNode) -> dict[str, object]:
    """Return the attributes that only nodes of this kind have; nested values get dotted names."""
    request, reply = (node.call.asked, node.call.reply) if node.call else (None, None)
    messages, tools = (request.messages, request.tools) if request else ((), ())
    match node.kind:
        case "attempt":
            return {"agent.name": trace.run.agent}
        case "step":
            return {"graph.node": {"id": node.name, "name": node.name}}
        case "embedding":
            texts = [{"embedding": {"text": message.content}} for message in messages]
            return {"embedding": {"model_name": node.model, "embeddings": texts}}
        case "tool":
            return {"tool.name": node.name}
        case "model":
            definitions = [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools
            ]
            return {
                "llm.model_name": node.model,
                "llm.provider": node.provider or None,
                "llm.invocation_parameters": _json(node.parameters),
                "llm.finish_reason": node.facts.get("finish"),
                "llm.input_messages": [_message(message) for message in messages],
                "llm.tools": [
                    {"tool.json_schema": _json({"type": "function", "function": definition})}
                    for definition in definitions
                ],
                "llm.output_messages": [_message(replied(reply))] if reply else [],
            }
    return {}


def _flattened(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values in nested mappings and lists, each with the dotted path to it, as OpenInference names them."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flattened(part, f"{name}.{key}".lstrip("."))
    else:
        yield name, value


def _value(value: object) -> dict[str, object]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"value": value, "mime_type": "text/plain"}
    return {"value": _json(value), "mime_type": "application/json"}


def _message(message: Message) -> dict[str, object]:
    calls = [
        {"tool_call": {"id": call.id or None, "function": {"name": call.name, "arguments": call.arguments}}}
        for call in message.calls
    ]
    turn = {"role": message.role, "content": message.content, "tool_call_id": message.answers or None}
    return {"message": {**turn, "tool_calls": calls}}


def _document(passage: Passage) -> dict[str, object]:
    facts = _json(_passage_facts(passage))
    return {"id": passage.id, "score": float(passage.score), "content": passage.text, "metadata": facts}


def _langchain_document(passage: Passage) -> dict[str, object]:
    """Return a passage as LangChain writes documents, which other tools read."""
    metadata = {"id": passage.id, "score": float(passage.score), **_passage_facts(passage)}
    return {"page_content": passage.text, "type": "Document", "metadata": metadata}


def _passage_facts(passage: Passage) -> dict[str, object]:
    return {name: getattr(passage, name) for name in ("document", "title", "corpus", "rank", "retriever")}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
