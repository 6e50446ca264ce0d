"""What the nodes of an attempt are called in the OpenInference conventions, which Phoenix and others read."""

from __future__ import annotations

import msgspec

from ragrounds.base.contracts import Tool
from ragrounds.base.records import Message, Passage, Usage
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceNode, replied

Attributes = dict[str, object]
"""Attributes of a span: texts, numbers, truth values or lists of texts; ``None`` is left out."""
PROJECT = "openinference.project.name"
"""The resource attribute by which Phoenix knows a project."""
_KINDS = {
    "attempt": "AGENT",
    "step": "CHAIN",
    "model": "LLM",
    "embedding": "EMBEDDING",
    "search": "RETRIEVER",
    "tool": "TOOL",
}


def openinference(trace: Trace, node: TraceNode) -> Attributes:
    """The attributes of one node of a clean trace. What a search found is its output, too: not all servers know
    documents."""
    made: Attributes = {
        "openinference.span.kind": _KINDS[node.kind],
        "session.id": trace.run.id,
        **_value("input", node.input),
        **_value("output", node.output),
        **_usage(node.usage),
        "llm.cost.total": node.cost,
    }
    facts, asked = node.facts, node.call.asked if node.call else None
    match node.kind:
        case "attempt":
            made["agent.name"] = trace.run.agent
            facts = {**facts, "identity": trace.run.identity}
        case "step":
            made["graph.node.id"] = made["graph.node.name"] = node.name
        case "model":
            made |= _model(node)
        case "embedding":
            made["embedding.model_name"] = node.model
            for number, message in enumerate(asked.messages if asked else ()):
                made[f"embedding.embeddings.{number}.embedding.text"] = message.content
        case "tool":
            made["tool.name"] = node.name
        case "search":
            facts = {**facts, **node.parameters}
    if node.call is not None and node.call.passages:
        made |= _value("output", [retrieved(passage) for passage in node.call.passages])
        for number, passage in enumerate(node.call.passages):
            at = f"retrieval.documents.{number}.document."
            made |= {
                f"{at}id": passage.id,
                f"{at}score": float(passage.score),
                f"{at}content": passage.text,
                f"{at}metadata": _json(passage_facts(passage)),
            }
    return made | {"metadata": _json(facts)}


def _value(name: str, value: object) -> Attributes:
    if value is None or isinstance(value, str):
        return {f"{name}.value": value, f"{name}.mime_type": None if value is None else "text/plain"}
    return {f"{name}.value": _json(value), f"{name}.mime_type": "application/json"}


def _model(node: TraceNode) -> Attributes:
    made: Attributes = {
        "llm.model_name": node.model,
        "llm.provider": node.provider or None,
        "llm.invocation_parameters": _json(node.parameters),
        "llm.finish_reason": node.facts.get("finish"),
    }
    if node.call is not None and node.call.asked is not None:
        for number, message in enumerate(node.call.asked.messages):
            made |= _said(f"llm.input_messages.{number}.message.", message)
        for number, tool in enumerate(node.call.asked.tools):
            made[f"llm.tools.{number}.tool.json_schema"] = _json(as_function(tool))
    if node.call is not None and node.call.reply is not None:
        made |= _said("llm.output_messages.0.message.", replied(node.call.reply))
    return made


def _said(at: str, message: Message) -> Attributes:
    made: Attributes = {
        f"{at}role": message.role,
        f"{at}content": message.content,
        f"{at}tool_call_id": message.answers or None,
    }
    for number, call in enumerate(message.calls):
        inside = f"{at}tool_calls.{number}.tool_call."
        made[f"{inside}id"] = call.id or None
        made[f"{inside}function.name"] = call.name
        made[f"{inside}function.arguments"] = call.arguments
    return made


def _usage(usage: Usage | None) -> Attributes:
    return {} if usage is None else {
        "llm.token_count.prompt": usage.input,
        "llm.token_count.completion": usage.output,
        "llm.token_count.total": usage.input + usage.output,
        "llm.token_count.prompt_details.cache_read": usage.cached,
        "llm.token_count.completion_details.reasoning": usage.reasoning,
    }  # fmt: skip


def chat_input(node: TraceNode) -> object:
    """A node's input; of a model that was offered tools, with these."""
    asked = node.call.asked if node.call else None
    if asked is None or not asked.tools or node.kind == "tool":
        return node.input
    return {"messages": node.input, "tools": [as_function(tool) for tool in asked.tools]}


def as_function(tool: Tool) -> dict[str, object]:
    """A tool as chat models are told of it."""
    about = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": about}


def retrieved(passage: Passage) -> dict[str, object]:
    """A passage as LangChain writes documents, which other tools read."""
    about = {"id": passage.id, "score": float(passage.score), **passage_facts(passage)}
    return {"page_content": passage.text, "type": "Document", "metadata": about}


def passage_facts(passage: Passage) -> dict[str, object]:
    """What is known of a passage beside its text, id and score."""
    return {
        "document": passage.document,
        "title": passage.title,
        "corpus": passage.corpus,
        "rank": passage.rank,
        "retriever": passage.retriever,
    }


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
