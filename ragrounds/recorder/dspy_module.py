"""A DSPy module as a system: its inputs are filled by their names, its answer is read from its prediction.

DSPy's callbacks tell of inner modules as steps, of calls to language models, and of passages: those that a retriever
or a tool gave, or that a predictor was given as its context. DSPy's own cache is switched off in this process: what it
answers would be in no journal, and the journal does its work.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from .answers import (
    Wiring,
    at_path,
    check_fields,
    fed,
    guessed,
    read_answer,
    refuse_settings,
)
from .errors import Refused
from .function import in_thread
from .observer import STEP, Given, Observer
from .passages import passages_of
from .wire import ToldCall

_GIVEN = ("context", "passages", "documents")
"""Inputs of a predictor that hold passages."""


class ModuleSystem:
    """A DSPy module (:class:`~.observer.Form`)."""

    kind = "DSPy module"
    takes_context = False

    def __init__(self, made: Any, wiring: Wiring) -> None:
        """Settle its inputs.

        Raises:
            Refused: it is not known what it takes, or the card says what no module takes.
        """
        refuse_settings(wiring, self.kind, "config", "context", "on_interrupt")
        check_fields(wiring.name, wiring.input.values())
        keys = _inputs(made)
        self.made = made
        self._wiring = wiring
        self.input = wiring.input or guessed(keys) or ({keys[0]: "prompt"} if len(keys) == 1 else {})
        if not self.input:
            raise Refused(
                f"{wiring.name}: what is the input of {', '.join(keys) or 'it'}? Set it in the agent's file: input = "
                '{ KEY = "prompt" }.'
            )

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> Given:
        """Run the module, in a thread where it can be, as its users do."""
        dspy, module, values = _dspy(), self.made, fed(question)
        inputs = {key: values[given] for key, given in self.input.items()}
        told = _callback(seen, inputs)
        with dspy.context(callbacks=[*(dspy.settings.callbacks or ()), told]):
            if type(self.made).__dict__.get("aforward") and not callable(getattr(type(self.made), "forward", None)):
                said = await module.acall(**inputs)
            else:
                said = await in_thread(lambda: module(**inputs))
        outputs = list(cast("Mapping[str, object]", said)) if hasattr(said, "keys") else []
        last = "" if "answer" in outputs or not outputs else outputs[-1]
        return read_answer(said, question, self._wiring, seen, output="answer" if "answer" in outputs else last)


def adapts(made: object, wiring: Wiring) -> ModuleSystem | None:
    """The system of a DSPy module.

    Raises:
        Refused: what the card says does not fit it.
    """
    if "dspy" not in sys.modules or isinstance(made, type):
        return None
    dspy = _dspy()
    if not isinstance(made, dspy.Module):
        return None
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    return ModuleSystem(made, wiring)


def _inputs(made: object) -> list[str]:
    """The names of a module's inputs: of its signature, or the arguments of its ``forward``."""
    fields = at_path(made, "signature.input_fields")
    if isinstance(fields, Mapping):
        return list(fields)
    forward = getattr(type(made), "forward", None) or getattr(type(made), "aforward", None)
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    taken = list(inspect.signature(forward).parameters.values())[1:] if callable(forward) else []
    named = [one.name for one in taken if one.kind not in stars]
    inner = getattr(made, "predict", None)  # of a chain of thought, whose own arguments have no names
    return named or (_inputs(inner) if inner is not None else [])


def _dspy() -> Any:
    return import_module("dspy")  # it is not installed where this is type-checked


def _callback(seen: Observer, given: Mapping[str, object]) -> object:
    """What hears of one attempt, as DSPy takes it."""
    base = cast("type", import_module("dspy.utils.callback").BaseCallback)
    return type("ToldByDspy", (_Told, base), {})(seen, given)


class _Told:
    """Hears of modules, models and tools in one attempt."""

    def __init__(self, seen: Observer, given: Mapping[str, object]) -> None:
        self._seen = seen
        self._given = given
        self._models: dict[str, tuple[str, ToldCall]] = {}
        self._steps: dict[str, tuple[str, Mapping[str, object]]] = {}
        self._around: dict[str, str] = {}
        self._searches = 0

    def on_module_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """An inner module begins; the whole module is the attempt itself."""
        named = _named(inputs)
        held = next((named[key] for key in _GIVEN if named.get(key)), None)
        if held and not self._searches:  # a search that DSPy knows nothing of
            self._found(_query(named) or _query(self._given), held, "context")
        self._steps[call_id] = ("" if not self._steps else type(instance).__name__, named)
        if self._steps[call_id][0]:
            self._around[call_id] = STEP.get()
            self._seen.entered(call_id, self._steps[call_id][0])
            STEP.set(call_id)

    def on_module_end(self, call_id: str, outputs: object, exception: Exception | None = None) -> None:
        """A module ended."""
        node, named = self._steps.get(call_id, ("", {}))
        if found := at_path(outputs, "passages"):
            self._found(_query(named) or _query(self._given), found, node or "retriever")
        if node:
            STEP.set(self._around.pop(call_id, ""))
            error = f"{type(exception).__name__}: {exception}" if exception else ""
            self._seen.left(call_id, node, {}, error)

    def on_lm_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """A language model is asked."""
        self._models[call_id] = type(instance).__name__, ToldCall(call_id)
        self._seen.model_called(call_id, "", True)

    def on_lm_end(self, call_id: str, outputs: object, exception: Exception | None = None) -> None:
        """It has answered."""
        model, call = self._models.pop(call_id, ("LM", None))
        if call is not None:
            call.end()
        self._seen.model_called(call_id, f"a model of class {model}", False)

    def on_tool_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """A tool begins."""
        self._steps[call_id] = (str(getattr(instance, "name", "tool")), _named(inputs))

    def on_tool_end(self, call_id: str, outputs: object, exception: Exception | None = None) -> None:
        """A tool ended; one that gives a list of texts is a search."""
        name, named = self._steps.get(call_id, ("tool", {}))
        self._found(_query(named), outputs, name)

    def _found(self, query: str, held: object, tool: str) -> None:
        """Tell of passages."""
        if passages := _passages(held):
            self._searches += 1
            self._seen.found(query, passages, tool)


def _named(inputs: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments of a call by name."""
    inside = inputs.get("kwargs")
    return inside if isinstance(inside, Mapping) and len(inputs) <= 2 else inputs


def _query(named: Mapping[str, object]) -> str:
    usual = ("query", "question", "query_or_queries", "search_query")
    texts = [named[key] for key in usual if isinstance(named.get(key), str)]
    return str(next(iter(texts), next((value for value in named.values() if isinstance(value, str)), "")))


def _passages(held: object) -> Sequence[Mapping[str, object]]:
    """A list of texts, or of objects that hold one, as passages."""
    if not isinstance(held, Sequence) or isinstance(held, str):
        return ()
    named = ("id", "title")
    texts = [(one, one if isinstance(one, str) else at_path(one, "long_text") or at_path(one, "text")) for one in held]
    return passages_of(
        [{"text": text, **{name: at_path(one, name) for name in named}} if text else one for one, text in texts]
    )
