"""What LangChain binds to a chat model, as arguments of a call through the context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from langchain_core.utils.function_calling import convert_to_openai_tool
from msgspec import Struct

from ragrounds.base.contracts import CallArguments, Tool
from ragrounds.base.errors import UserError, nearest

_WEB_SEARCH = ("web_search", "web_search_preview", "web_search_20250305")
"""Types of tools by which providers' own web search is asked for."""


class _Bound(Struct, frozen=True, kw_only=True):
    """What may be bound to a chat model, with the types that it must have."""

    tools: list[object] = []
    tool_choice: bool | str | dict[str, object] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, object] | None = None
    """In OpenAI's form."""
    temperature: float | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: list[str] | str | None = None
    stream: bool | None = None
    stream_usage: bool | None = None
    """A reply comes whole, with its usage, whether it is to be streamed or not."""


_NAMES = _Bound.__struct_fields__


def call_arguments(bound: Mapping[str, object]) -> CallArguments:
    """What was set on a chat model, bound to it or given with a call, as arguments of a call through the context.

    Raises:
        UserError: something of it cannot be passed on, or is of the wrong type.
    """
    for name in bound:
        if name not in _NAMES:
            raise UserError(
                f"The attempt's model cannot be given {name!r} with a call.{nearest(name, _NAMES)} It takes "
                f"{', '.join(_NAMES)}; what else samples stands in the model's text: openai:NAME[top_p=0.9]."
            )
    try:
        given = msgspec.convert(dict(bound), _Bound)
    except msgspec.ValidationError as error:
        raise UserError(f"The attempt's model was given an argument of the wrong type: {error}.") from error
    tools, web_search = _tools(given.tools)
    made = CallArguments()
    if given.stop:
        made["stop"] = [given.stop] if isinstance(given.stop, str) else given.stop
    if tools:
        made["tools"] = tools
    if web_search:
        made["web_search"] = True
    if (most := given.max_tokens if given.max_tokens is not None else given.max_completion_tokens) is not None:
        made["max_tokens"] = most
    if given.logprobs or given.top_logprobs:
        made["logprobs"] = given.top_logprobs or 0
    made["temperature"], made["seed"] = given.temperature, given.seed
    made["parallel_tool_calls"] = given.parallel_tool_calls
    made["tool_choice"] = chosen_tool(given.tool_choice, [tool.name for tool in tools])
    if given.response_format is not None:
        made["response_format"] = given.response_format
    return made


def _tools(given: Sequence[object]) -> tuple[list[Tool], bool]:
    """The tools, and whether a provider's own web search is among them."""
    tools, web_search = [], False
    for one in given:
        plain = one if isinstance(one, dict) else convert_to_openai_tool(cast("type", one))
        function = plain.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            parameters = function.get("parameters") or {"type": "object", "properties": {}}
            strict = function.get("strict") is True
            tools.append(Tool(function["name"], str(function.get("description") or ""), parameters, strict))
        elif plain.get("type") in _WEB_SEARCH:
            web_search = True
        else:
            what = plain.get("type") or plain.get("name") or "without a type"
            raise UserError(f"The attempt's model cannot be given the provider's own tool {what!r}: only web_search.")
    return tools, web_search


def chosen_tool(choice: object, names: Sequence[str]) -> str | None:
    """A choice of tools, in any of the forms that LangChain's models take, as
    :attr:`ragrounds.base.contracts.Request.tool_choice`; ``None``: the model chooses, as it does unasked.

    Raises:
        UserError: it names no tool that is there.
    """
    if isinstance(choice, dict):
        function = choice.get("function")
        named = function.get("name") if isinstance(function, dict) else choice.get("name")
        choice = named or choice.get("type")
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
