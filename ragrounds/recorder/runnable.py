"""A LangChain runnable as a system: a chain (LCEL), an agent executor, a chat model, a graph with a configuration bound
to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from .answers import Wiring, check_fields, fed, guessed, read_answer, refuse_settings
from .callbacks import handlers
from .errors import Refused
from .langgraph_graph import as_messages
from .observer import Given, Observer

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig


class RunnableSystem:
    """A runnable (:class:`~.observer.Form`)."""

    kind = "LangChain runnable"
    takes_context = False

    def __init__(self, made: Runnable[Any, object], wiring: Wiring) -> None:
        """Settle what it is given.

        Raises:
            Refused: no key of its input is known, or the card says what no runnable takes.
        """
        refuse_settings(wiring, "runnable", "context", "on_interrupt")
        check_fields(wiring.name, wiring.input.values())
        self.made = made
        self._wiring = wiring
        keys, way = _taken(made)
        self.input = wiring.input or guessed(keys) or ({keys[0]: "prompt"} if len(keys) == 1 else {})
        self._way = "mapping" if self.input else way
        if keys and not self.input:
            raise Refused(
                f"{wiring.name}: what is the input of {', '.join(keys)}? Set it in the agent's file: input = {{ "
                f'{keys[0]} = "prompt" }}.'
            )

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> Given:
        """Invoke it with the question."""
        values = {key: as_messages(value) for key, value in fed(question).items()}
        given = {key: values[field] for key, field in self.input.items()} if self.input else values[self._way]
        config = {
            "callbacks": handlers(),
            "recursion_limit": seen.max_steps,
            "configurable": {"thread_id": seen.thread, "session_id": seen.thread, **self._wiring.config},
        }
        said = await self.made.ainvoke(given, cast("RunnableConfig", config))
        return read_answer(said, question, self._wiring, seen)


def adapts(made: object, wiring: Wiring) -> RunnableSystem | None:
    """The system of a runnable.

    Raises:
        Refused: as :class:`RunnableSystem`.
    """
    from langchain_core.runnables import Runnable

    return RunnableSystem(made, wiring) if isinstance(made, Runnable) else None


def _taken(made: Runnable[Any, object]) -> tuple[list[str], str]:
    """The keys of a runnable's input, where it takes a mapping, and else what it takes: ``prompt`` or ``messages``."""
    from langchain_core.language_models import BaseLanguageModel

    if isinstance(made, BaseLanguageModel):
        return [], "messages"
    try:
        schema = made.get_input_jsonschema()
    except Exception:  # of a function without types: it does not say
        return [], "prompt"
    properties = schema.get("properties")
    if isinstance(properties, dict) and list(properties) != ["root"]:  # the root of a value that is no mapping
        return list(properties), "prompt"
    return [], "messages" if schema.get("type") == "array" else "prompt"
