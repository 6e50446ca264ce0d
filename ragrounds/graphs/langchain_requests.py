"""Conversion of the settings that LangChain binds to a chat model into arguments of a call through the context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from langchain_core.utils.function_calling import convert_to_openai_tool
from msgspec import Struct

from ragrounds.base.contracts import CallArguments, Tool
from ragrounds.base.errors import UserError, nearest

_WEB_SEARCH = ("web_search", "web_search_preview", "web_search_20250305")
"""Types of tools that request a provider's own web search."""


class _Bound(Struct, frozen=True, kw_only=True):
    """Settings that may be bound to a chat model, with the types that they must have."""

    tools: list[object] = []
    tool_choice: bool | str | dict[str, object] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, object] | None = None
    """Response format in OpenAI's form."""
    temperature: float | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: list[str] | str | None = None
    stream: bool | None = None
    stream_usage: bool | None = None
    """Streaming settings, which have no effect: a reply always comes whole, with its usage."""


_NAMES = _Bound.__struct_fields__


def call_arguments(bound: Mapping[str, object]) -> CallArguments:
    """Return the settings of a chat model, bound to it or passed with a call, as arguments of a call through the
    context.

    Raises:
        UserError: a setting cannot be passed on, or is of the wrong type.
    """
    for name in bound:
        if name not in _NAMES:
            raise UserError(
                f"The attempt's model cannot be given {name!r} with a call.{nearest(name, _NAMES)} It takes "
                f"{', '.join(_NAMES)}; set other sampling parameters in the model's text: openai:NAME[top_p=0.9]."
            )
    try:
        settings = msgspec.convert(dict(bound), _Bound)
    except msgspec.ValidationError as error:
        raise UserError(f"The attempt's model was given an argument of the wrong type: {error}.") from error
    tools, web_search = _tools(settings.tools)
    arguments = CallArguments()
    if settings.stop:
        arguments["stop"] = [settings.stop] if isinstance(settings.stop, str) else settings.stop
    if tools:
        arguments["tools"] = tools
    if web_search:
        arguments["web_search"] = True
    if (
        token_limit := settings.max_tokens if settings.max_tokens is not None else settings.max_completion_tokens
    ) is not None:
        arguments["max_tokens"] = token_limit
    if settings.logprobs or settings.top_logprobs:
        arguments["logprobs"] = settings.top_logprobs or 0
    arguments["temperature"], arguments["seed"] = settings.temperature, settings.seed
    arguments["parallel_tool_calls"] = settings.parallel_tool_calls
    arguments["tool_choice"] = chosen_tool(settings.tool_choice, [tool.name for tool in tools])
    if settings.response_format is not None:
        arguments["response_format"] = settings.response_format
    return arguments


def _tools(bound_tools: Sequence[object]) -> tuple[list[Tool], bool]:
    """Return the tools, and True if a provider's own web search is among them."""
    tools, web_search = [], False
    for tool in bound_tools:
        plain = tool if isinstance(tool, dict) else convert_to_openai_tool(cast("type", tool))
        function = plain.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            parameters = function.get("parameters") or {"type": "object", "properties": {}}
            strict = function.get("strict") is True
            tools.append(Tool(function["name"], str(function.get("description") or ""), parameters, strict))
        elif plain.get("type") in _WEB_SEARCH:
            web_search = True
        else:
            kind = plain.get("type") or plain.get("name") or "without a type"
            raise UserError(f"The attempt's model cannot be given the provider's own tool {kind!r}: only web_search.")
    return tools, web_search


def chosen_tool(choice: object, names: Sequence[str]) -> str | None:
    """Return a choice of tools, in any of the forms that LangChain's models take, as
    :attr:`ragrounds.base.contracts.Request.tool_choice`. Return ``None`` if the model chooses, which is the default.

    Raises:
        UserError: it names no tool of the call.
    """
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else choice.get("name")
        choice = name or choice.get("type")
    if choice is True and names:
        return names[0]
    if choice in (None, False, "auto"):
        return None
    if choice in ("any", "required"):
        return "required"
    if choice == "none" or choice in names:
        return str(choice)
    raise UserError(
        f"tool_choice={choice!r} is no tool of this call.{nearest(str(choice), names)} Expected auto, none, any or one "
        f"of: {', '.join(names) or '(no tools are bound)'}."
    )
