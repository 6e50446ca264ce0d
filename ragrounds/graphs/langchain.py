"""LangChain interfaces to an attempt's context: a chat model and a search tool whose every call is journaled.

With these, whatever is built from LangChain's parts (``langchain.agents.create_agent``, a chain inside a node) runs in
the first tier: recorded, replayed, limited and costed. They find the context of the attempt that is running, so that a
graph is built once and holds no state of a question; its ``context_schema`` must be our ``Context``.

Nodes may be coroutines (``await model.ainvoke(…)``) or plain functions (``model.invoke(…)``): LangGraph runs those in
threads, from which the call goes to the attempt's event loop. A reply is journaled whole before it is used, so
``stream`` and ``astream`` give it in one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.runtime import get_runtime

from ragrounds.base.contracts import Context, Tool
from ragrounds.base.errors import UserError
from ragrounds.base.records import Reply
from ragrounds.graphs.documents import render_documents
from ragrounds.graphs.langchain_requests import call_arguments
from ragrounds.graphs.langchain_turns import message_of, turns_of
from ragrounds.graphs.model_text import written_query
from ragrounds.recorder.observer import PROVIDER
from ragrounds.tools.agent_tools import described


def context() -> Context:
    """Return the context of the running attempt.

    It is available only inside a node, or inside a tool that a node runs.

    Raises:
        UserError: no attempt is running.
    """
    try:
        running = get_runtime(Context).context
    except RuntimeError:
        running = None
    if running is None:
        raise UserError(
            "No attempt runs here: the attempt's model and search are for the nodes of a graph with "
            "`context_schema=Context`, and not for threads that it starts by itself."
        )
    return running


class ContextModel(BaseChatModel):
    """The attempt's own model as a LangChain chat model.

    Settings made here, bound (``bind``, ``bind_tools``) or passed with a call go to the model, and are a part of the
    call's key in the journal. A setting that cannot be passed on is an error. ``with_structured_output(CLASS)`` asks
    for a form by a tool that must be called.
    """

    role: str = "answering"
    """Role of the tokens in the ledger: ``answering``, ``querying``, ``reading``."""
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: list[str] | str | None = None
    logprobs: bool | None = None
    """True to get the log probabilities of the reply's tokens, as ``response_metadata["logprobs"]``."""
    top_logprobs: int | None = None
    """Number of likeliest tokens that are returned for each token."""
    cache: BaseCache | bool | None = False
    """Cache of LangChain, which is off. The journal is used instead, since it knows the attempt."""

    @property
    def _llm_type(self) -> str:
        return PROVIDER

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: object) -> LangSmithParams:
        return LangSmithParams(ls_provider=PROVIDER, ls_model_type="chat")

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., object] | BaseTool],
        *,
        tool_choice: object = None,
        strict: bool | None = None,
        **kwargs: object,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools in any form that LangChain takes.

        Args:
            tools: Functions, tools, classes, schemas.
            tool_choice: ``auto``, ``none``, ``any`` or ``required``, the name of a tool, or OpenAI's form of that.
            strict: True if the provider has to keep the arguments to their schemas.
            kwargs: Further arguments of each call: ``parallel_tool_calls``, ``response_format``, ``temperature`` …
        """
        choice = {} if tool_choice is None else {"tool_choice": tool_choice}
        return self.bind(tools=[convert_to_openai_tool(tool, strict=strict) for tool in tools], **choice, **kwargs)

    def batch(
        self,
        inputs: list[LanguageModelInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: object,
    ) -> list[AIMessage]:
        """Make several calls at the same time, from a plain function.

        Raises:
            UserError: it is called on the event loop's own thread. Use `abatch` there.
        """
        # Raises an error on the event loop's own thread, where the threads of a batch would wait for it forever.
        context().wait(asyncio.sleep(0))
        return super().batch(inputs, config, return_exceptions=return_exceptions, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        running = context()
        return _result(messages, running.wait(self._reply(running, messages, stop, kwargs)))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        return _result(messages, await self._reply(context(), messages, stop, kwargs))

    async def _reply(
        self, running: Context, messages: list[BaseMessage], stop: list[str] | None, arguments: Mapping[str, object]
    ) -> Reply:
        """Ask the attempt's model with the settings of this object and of the call. Those of the call win."""
        fields = ("temperature", "max_tokens", "seed", "stop", "logprobs", "top_logprobs")
        settings = {name: getattr(self, name) for name in fields} | {
            name: value for name, value in arguments.items() if value is not None
        }
        if stop is not None:
            settings["stop"] = stop
        return await running.ask(turns_of(messages), role=self.role, **call_arguments(settings))


def _result(messages: Sequence[BaseMessage], reply: Reply) -> ChatResult:
    earlier_calls = sum(len(turn.calls) for turn in turns_of(messages))
    return ChatResult(generations=[ChatGeneration(message=message_of(reply, earlier_calls))])


async def _search(query: str) -> str:
    """Search from a coroutine of the running attempt."""
    running = context()
    return render_documents(await running.search(written_query(running, query), _top_k(running)))


def _search_and_wait(query: str) -> str:
    """Search from a plain function, on the attempt's event loop."""
    return context().wait(_search(query))


search = StructuredTool.from_function(
    _search_and_wait,
    coroutine=_search,
    name="search",
    description="Search the corpus for passages about a query.",
)
"""The attempt's search as a LangChain tool."""


def tools(*names: str) -> list[BaseTool]:
    """Return the tools that the running agent lists (``tools=[corpus,read,…]``) as LangChain tools, journaled.

    Args:
        names: Names that a model calls: ``search``, ``search_web``, ``read``, ``fetch``. For a graph that is built
            before an attempt runs. Without names, inside a node: all that the agent lists, including those of MCP
            servers.

    Raises:
        UserError: no names are passed and no attempt is running; or the schema of a name is not known beforehand.
    """
    return [_tool(described(name)) for name in names] or [_tool(tool) for tool in context().tools]


def _tool(described: Tool) -> BaseTool:
    """Return a tool of the running attempt as a LangChain tool."""

    async def use(**arguments: object) -> str:
        running = context()
        answer = await running.use(described.name, arguments, k=_top_k(running))
        return answer.text or render_documents(answer.passages)

    return StructuredTool.from_function(
        lambda **arguments: context().wait(use(**arguments)),
        coroutine=use,
        name=described.name,
        description=described.description,
        args_schema=described.parameters,
    )


def _top_k(running: Context) -> int:
    value = running.parameters.get("top_k", 5)
    return value if isinstance(value, int) and value > 0 else 5
