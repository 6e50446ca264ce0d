"""What the nodes of an attempt are called in the OpenInference conventions, which Phoenix and others read."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ragrounds.contracts import Tool
from ragrounds.evals.exchange.formats import optional_module
from ragrounds.evals.exchange.trace_nodes import TraceNode, replied
from ragrounds.evals.store.traces import Trace
from ragrounds.records import Message, Passage, Usage

Attributes = dict[str, object]
"""Attributes of a span: texts, numbers, truth values or lists of texts; ``None`` is left out."""
_KINDS = {
    "attempt": "AGENT",
    "step": "CHAIN",
    "model": "LLM",
    "embedding": "EMBEDDING",
    "search": "RETRIEVER",
    "tool": "TOOL",
}


class OpenInferenceAttributes:
    """Makes the attributes of nodes. Needs the extra ``export``.

    Args:
        documents_as_output: Whether what a search found is its output, too: for servers that do not know documents.
    """

    def __init__(self, *, documents_as_output: bool = False) -> None:
        self._as_output = documents_as_output
        conventions = optional_module("openinference.semconv.trace", "OpenTelemetry")
        self._names = conventions.SpanAttributes
        self._message = conventions.MessageAttributes
        self._call = conventions.ToolCallAttributes
        self._tool = conventions.ToolAttributes
        self._document = conventions.DocumentAttributes
        self._embedding = conventions.EmbeddingAttributes

    def __call__(self, trace: Trace, node: TraceNode) -> Attributes:
        """The attributes of one node of a clean trace."""
        names = self._names
        made: Attributes = {
            names.OPENINFERENCE_SPAN_KIND: _KINDS[node.kind],
            names.SESSION_ID: trace.run.id,
            **self._value(names.INPUT_VALUE, names.INPUT_MIME_TYPE, node.input),
            **self._value(names.OUTPUT_VALUE, names.OUTPUT_MIME_TYPE, node.output),
            **self._usage(node.usage),
            names.LLM_COST_TOTAL: node.cost,
        }
        facts = node.facts
        match node.kind:
            case "attempt":
                made[names.AGENT_NAME] = trace.run.agent
                facts = {**facts, "identity": trace.run.identity}
            case "step":
                made[names.GRAPH_NODE_ID] = made[names.GRAPH_NODE_NAME] = node.name
            case "model":
                made |= self._model(node)
            case "embedding":
                made[names.EMBEDDING_MODEL_NAME] = node.model
                texts = (
                    [message.content for message in node.call.asked.messages] if node.call and node.call.asked else []
                )
                for number, text in enumerate(texts):
                    made[f"{names.EMBEDDING_EMBEDDINGS}.{number}.{self._embedding.EMBEDDING_TEXT}"] = text
            case "tool":
                made[names.TOOL_NAME] = node.name
            case "search":
                facts = {**facts, **node.parameters}
        if node.call is not None and node.call.passages:
            if self._as_output:
                found = [retrieved(passage) for passage in node.call.passages]
                made |= self._value(names.OUTPUT_VALUE, names.OUTPUT_MIME_TYPE, found)
            for number, passage in enumerate(node.call.passages):
                made |= self._passage(f"{names.RETRIEVAL_DOCUMENTS}.{number}.", passage)
        return made | {names.METADATA: _json(facts)}

    def _value(self, name: str, kind: str, value: object) -> Attributes:
        if value is None or isinstance(value, str):
            return {name: value, kind: None if value is None else "text/plain"}
        return {name: _json(value), kind: "application/json"}

    def _model(self, node: TraceNode) -> Attributes:
        names, traced = self._names, node.call
        made: Attributes = {
            names.LLM_MODEL_NAME: node.model,
            names.LLM_PROVIDER: node.provider or None,
            names.LLM_INVOCATION_PARAMETERS: _json(node.parameters),
            names.LLM_FINISH_REASON: node.facts.get("finish"),
        }
        if traced is not None and traced.asked is not None:
            for number, message in enumerate(traced.asked.messages):
                made |= self._said(f"{names.LLM_INPUT_MESSAGES}.{number}.", message)
            for number, tool in enumerate(traced.asked.tools):
                made[f"{names.LLM_TOOLS}.{number}.{self._tool.TOOL_JSON_SCHEMA}"] = _json(as_function(tool))
        if traced is not None and traced.reply is not None:
            made |= self._said(f"{names.LLM_OUTPUT_MESSAGES}.0.", replied(traced.reply))
        return made

    def _said(self, at: str, message: Message) -> Attributes:
        made: Attributes = {
            at + self._message.MESSAGE_ROLE: message.role,
            at + self._message.MESSAGE_CONTENT: message.content,
            at + self._message.MESSAGE_TOOL_CALL_ID: message.answers or None,
        }
        for number, call in enumerate(message.calls):
            inside = f"{at}{self._message.MESSAGE_TOOL_CALLS}.{number}."
            made[inside + self._call.TOOL_CALL_ID] = call.id or None
            made[inside + self._call.TOOL_CALL_FUNCTION_NAME] = call.name
            made[inside + self._call.TOOL_CALL_FUNCTION_ARGUMENTS_JSON] = call.arguments
        return made

    def _passage(self, at: str, passage: Passage) -> Attributes:
        return {
            at + self._document.DOCUMENT_ID: passage.id,
            at + self._document.DOCUMENT_SCORE: float(passage.score),
            at + self._document.DOCUMENT_CONTENT: passage.text,
            at + self._document.DOCUMENT_METADATA: _json(passage_facts(passage)),
        }

    def _usage(self, usage: Usage | None) -> Mapping[str, object]:
        names = self._names
        return {} if usage is None else {
            names.LLM_TOKEN_COUNT_PROMPT: usage.input,
            names.LLM_TOKEN_COUNT_COMPLETION: usage.output,
            names.LLM_TOKEN_COUNT_TOTAL: usage.input + usage.output,
            names.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ: usage.cached,
            names.LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING: usage.reasoning,
        }  # fmt: skip


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
