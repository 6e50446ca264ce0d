"""LangChain's faces of an attempt's context: a chat model and a search tool whose every call is journaled.

With these, whatever is built from LangChain's parts (``langchain.agents.create_agent``, a chain inside a node) runs in
the first tier: recorded, replayed, limited and costed. They find the context of the attempt that is running, so that a
graph is built once and holds no state of a question; its ``context_schema`` must be our ``Context``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.runtime import get_runtime

from ragrounds.contracts import Context, Tool
from ragrounds.graphs.documents import written
from ragrounds.graphs.model_text import written_query
from ragrounds.records import Message, Reply, Speaker, ToolCall

PROVIDER = "ragrounds"
"""By which callbacks know that a call is recorded already."""


def context() -> Context:
    """The context of the attempt that is running. Only inside of a node."""
    return get_runtime(Context).context


class ContextModel(BaseChatModel):
    """The attempt's own model as a LangChain chat model."""

    role: str = "answering"
    """Whose tokens these are in the ledger: ``answering``, ``querying``, ``reading``."""

    @property
    def _llm_type(self) -> str:
        return PROVIDER

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return LangSmithParams(ls_provider=PROVIDER, ls_model_type="chat")

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Tools in any form that LangChain takes."""
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("Nodes that ask the attempt's model must be async: use `await model.ainvoke(…)`.")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        tools = tuple(
            Tool(given["function"]["name"], given["function"].get("description", ""), given["function"]["parameters"])
            for given in kwargs.get("tools", ())
        )
        turns = turns_of(messages)
        reply = await context().ask(turns, role=self.role, stop=tuple(stop or ()), tools=tools)
        number = sum(len(turn.calls) for turn in turns)
        return ChatResult(generations=[ChatGeneration(message=_message(reply, number))])


@tool
async def search(query: str) -> str:
    """Search the corpus for passages about a query."""
    found = await context().search(written_query(context(), query), _top_k(context()))
    return written(found)


def turns_of(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """LangChain's messages as canonical turns: calls are numbered in order, whatever ids they carry."""
    numbers: dict[str, str] = {}
    turns: list[Message] = []
    for given in convert_to_openai_messages(list(messages), text_format="string"):
        calls = []
        for call in given.get("tool_calls", ()):
            numbers[call["id"]] = f"call_{len(numbers) + 1}"
            function = call["function"]
            calls.append(ToolCall(numbers[call["id"]], function["name"], function["arguments"]))
        role: Speaker = given["role"] if given["role"] in ("system", "assistant", "tool") else "user"
        answers = numbers.get(given.get("tool_call_id", ""), "")
        turns.append(Message(role, given["content"] or "", tuple(calls), answers))
    return tuple(turns)


def _message(reply: Reply, number: int) -> AIMessage:
    good, bad = [], []
    for place, call in enumerate(reply.calls, number + 1):
        try:
            arguments = json.loads(call.arguments or "{}", strict=False)
        except (ValueError, RecursionError):
            arguments = None
        if isinstance(arguments, dict):
            good.append({"id": f"call_{place}", "name": call.name, "args": arguments})
        else:
            bad.append({"id": f"call_{place}", "name": call.name, "args": call.arguments, "error": "no JSON object"})
    message = AIMessage(reply.text, tool_calls=good, invalid_tool_calls=bad)
    if reply.usage is not None:
        total = reply.usage.input + reply.usage.output
        message.usage_metadata = {
            "input_tokens": reply.usage.input,
            "output_tokens": reply.usage.output,
            "total_tokens": total,
        }
    return message


def _top_k(running: Context) -> int:
    value = running.parameters.get("top_k", 5)
    return value if isinstance(value, int) and value > 0 else 5
