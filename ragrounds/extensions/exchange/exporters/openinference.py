"""Attributes of an attempt's nodes by the OpenInference conventions, which Phoenix and others read."""

from __future__ import annotations

import msgspec

from ragrounds.base.contracts import Tool
from ragrounds.base.records import Message, Passage, Usage
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceNode, replied

Attributes = dict[str, object]
"""Attributes of a span: texts, numbers, booleans or lists of texts; ``None`` is left out."""
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


def openinference(trace: Trace, node: TraceNode) -> Attributes:
    """Return the attributes of one node of a clean trace.

    The passages of a search are in its output, too: not all servers support documents.
    """
    attributes: Attributes = {
        "openinference.span.kind": _KINDS[node.kind],
        "session.id": trace.run.id,
        **_value("input", node.input),
        **_value("output", node.output),
        **_usage(node.usage),
        "llm.cost.total": node.cost,
    }
    facts, request = node.facts, node.call.asked if node.call else None
    match node.kind:
        case "attempt":
            attributes["agent.name"] = trace.run.agent
            facts = {**facts, "identity": trace.run.identity}
        case "step":
            attributes["graph.node.id"] = attributes["graph.node.name"] = node.name
        case "model":
            attributes |= _model(node)
        case "embedding":
            attributes["embedding.model_name"] = node.model
            for number, message in enumerate(request.messages if request else ()):
                attributes[f"embedding.embeddings.{number}.embedding.text"] = message.content
        case "tool":
            attributes["tool.name"] = node.name
        case "search":
            facts = {**facts, **node.parameters}
    if node.call is not None and node.call.passages:
        attributes |= _value("output", [retrieved(passage) for passage in node.call.passages])
        for number, passage in enumerate(node.call.passages):
            prefix = f"retrieval.documents.{number}.document."
            attributes |= {
                f"{prefix}id": passage.id,
                f"{prefix}score": float(passage.score),
                f"{prefix}content": passage.text,
                f"{prefix}metadata": _json(passage_facts(passage)),
            }
    return attributes | {"metadata": _json(facts)}


def _value(name: str, value: object) -> Attributes:
    if value is None or isinstance(value, str):
        return {f"{name}.value": value, f"{name}.mime_type": None if value is None else "text/plain"}
    return {f"{name}.value": _json(value), f"{name}.mime_type": "application/json"}


def _model(node: TraceNode) -> Attributes:
    attributes: Attributes = {
        "llm.model_name": node.model,
        "llm.provider": node.provider or None,
        "llm.invocation_parameters": _json(node.parameters),
        "llm.finish_reason": node.facts.get("finish"),
    }
    if node.call is not None and node.call.asked is not None:
        for number, message in enumerate(node.call.asked.messages):
            attributes |= _message_attributes(f"llm.input_messages.{number}.message.", message)
        for number, tool in enumerate(node.call.asked.tools):
            attributes[f"llm.tools.{number}.tool.json_schema"] = _json(as_function(tool))
    if node.call is not None and node.call.reply is not None:
        attributes |= _message_attributes("llm.output_messages.0.message.", replied(node.call.reply))
    return attributes


def _message_attributes(prefix: str, message: Message) -> Attributes:
    attributes: Attributes = {
        f"{prefix}role": message.role,
        f"{prefix}content": message.content,
        f"{prefix}tool_call_id": message.answers or None,
    }
    for number, call in enumerate(message.calls):
        call_prefix = f"{prefix}tool_calls.{number}.tool_call."
        attributes[f"{call_prefix}id"] = call.id or None
        attributes[f"{call_prefix}function.name"] = call.name
        attributes[f"{call_prefix}function.arguments"] = call.arguments
    return attributes


def _usage(usage: Usage | None) -> Attributes:
    return {} if usage is None else {
        "llm.token_count.prompt": usage.input,
        "llm.token_count.completion": usage.output,
        "llm.token_count.total": usage.input + usage.output,
        "llm.token_count.prompt_details.cache_read": usage.cached,
        "llm.token_count.completion_details.reasoning": usage.reasoning,
    }  # fmt: skip


def chat_input(node: TraceNode) -> object:
    """Return a node's input, with the tools that a model was offered, if any."""
    request = node.call.asked if node.call else None
    if request is None or not request.tools or node.kind == "tool":
        return node.input
    return {"messages": node.input, "tools": [as_function(tool) for tool in request.tools]}


def as_function(tool: Tool) -> dict[str, object]:
    """Return a tool in the form that chat models take."""
    definition = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": definition}


def retrieved(passage: Passage) -> dict[str, object]:
    """Return a passage as LangChain writes documents, which other tools read."""
    metadata = {"id": passage.id, "score": float(passage.score), **passage_facts(passage)}
    return {"page_content": passage.text, "type": "Document", "metadata": metadata}


def passage_facts(passage: Passage) -> dict[str, object]:
    """Return the metadata of a passage: all fields except its text, id and score."""
    return {
        "document": passage.document,
        "title": passage.title,
        "corpus": passage.corpus,
        "rank": passage.rank,
        "retriever": passage.retriever,
    }


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
