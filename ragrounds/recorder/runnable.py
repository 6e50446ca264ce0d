"""A LangChain runnable as a system: a chain (LCEL), an agent executor, a chat model, a graph with a bound
configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from .answers import Wiring, check_fields, guess_fields, read_answer, refuse_settings
from .callbacks import handlers
from .errors import Refused
from .langgraph_graph import langchain_input
from .observer import Observer, SystemAnswer

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig


class RunnableSystem:
    """A runnable as a system (:class:`~.observer.Form`)."""

    kind = "LangChain runnable"
    takes_context = False

    def __init__(self, wrapped: Runnable[Any, object], wiring: Wiring) -> None:
        """Determine the input of the runnable.

        Raises:
            Refused: no key of its input is known, or the card sets something that runnables do not take.
        """
        refuse_settings(wiring, "runnable", "context", "on_interrupt")
        check_fields(wiring.name, wiring.input.values())
        self.wrapped = wrapped
        self._wiring = wiring
        keys, input_field = _input_keys(wrapped)
        self.input = wiring.input or guess_fields(keys) or ({keys[0]: "prompt"} if len(keys) == 1 else {})
        self._input_field = "" if self.input else input_field
        if keys and not self.input:
            raise Refused(
                f"{wiring.name}: what is the input of {', '.join(keys)}? Set it in the agent's file: input = {{ "
                f'{keys[0]} = "prompt" }}.'
            )

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> SystemAnswer:
        """Invoke the runnable with the question."""
        input_value = langchain_input(question, self.input, self._input_field)
        config = {
            "callbacks": handlers(),
            "recursion_limit": seen.max_steps,
            "configurable": {"thread_id": seen.thread, "session_id": seen.thread, **self._wiring.config},
        }
        output = await self.wrapped.ainvoke(input_value, cast("RunnableConfig", config))
        return read_answer(output, question, self._wiring, seen)


def adapts(candidate: object, wiring: Wiring) -> RunnableSystem | None:
    """Return the system of a runnable, or ``None`` for any other object.

    Raises:
        Refused: as :class:`RunnableSystem`.
    """
    from langchain_core.runnables import Runnable

    return RunnableSystem(candidate, wiring) if isinstance(candidate, Runnable) else None


def _input_keys(runnable: Runnable[Any, object]) -> tuple[list[str], str]:
    """Return the keys of a runnable's input mapping, or no keys and the input's form: ``prompt`` or ``messages``."""
    from langchain_core.language_models import BaseLanguageModel

    if isinstance(runnable, BaseLanguageModel):
        return [], "messages"
    try:
        schema = runnable.get_input_jsonschema()
    except Exception:  # a function without types has no schema
        return [], "prompt"
    properties = schema.get("properties")
    if isinstance(properties, dict) and list(properties) != ["root"]:  # the root of a value that is not a mapping
        return list(properties), "prompt"
    return [], "messages" if schema.get("type") == "array" else "prompt"
