"""A DSPy module as a system: its inputs are filled by name, its answer is read from its prediction.

DSPy's callbacks report inner modules as steps, calls to language models, and passages: those that a retriever or a tool
returned, or that a predictor received as its context. DSPy's own cache is disabled in this process. Its replies would
not be journaled, and the journal replaces it.
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
    guess_fields,
    read_answer,
    refuse_settings,
)
from .errors import Refused
from .function import in_thread
from .observer import STEP, Observer, SystemAnswer
from .passages import passages_of
from .wire import ReportedCall

_PASSAGE_INPUTS = ("context", "passages", "documents")
"""Inputs of a predictor that contain passages."""


class ModuleSystem:
    """A DSPy module as a system (:class:`~.observer.Form`)."""

    kind = "DSPy module"
    takes_context = False

    def __init__(self, wrapped: Any, wiring: Wiring) -> None:
        """Determine the module's inputs.

        Raises:
            Refused: its inputs are unknown, or the card sets something that modules do not take.
        """
        refuse_settings(wiring, self.kind, "config", "context", "on_interrupt")
        check_fields(wiring.name, wiring.input.values())
        keys = _inputs(wrapped)
        self.wrapped = wrapped
        self._wiring = wiring
        self.input = wiring.input or guess_fields(keys) or ({keys[0]: "prompt"} if len(keys) == 1 else {})
        if not self.input:
            raise Refused(
                f"{wiring.name}: what is the input of {', '.join(keys) or 'it'}? Set it in the agent's file: input = "
                '{ KEY = "prompt" }.'
            )

    async def answer(self, question: Mapping[str, Any], seen: Observer) -> SystemAnswer:
        """Run the module, in a thread if possible, as its users do."""
        dspy, module, values = _dspy(), self.wrapped, fed(question)
        inputs = {key: values[field] for key, field in self.input.items()}
        base = cast("type", import_module("dspy.utils.callback").BaseCallback)
        callback = type("DspyObserver", (_DspyCallbacks, base), {})(seen, inputs)
        kind = type(module)
        with dspy.context(callbacks=[*(dspy.settings.callbacks or ()), callback]):
            if kind.__dict__.get("aforward") and not callable(getattr(kind, "forward", None)):
                prediction = await module.acall(**inputs)
            else:
                prediction = await in_thread(lambda: module(**inputs))
        outputs = list(cast("Mapping[str, object]", prediction)) if hasattr(prediction, "keys") else []
        last = "" if "answer" in outputs or not outputs else outputs[-1]
        return read_answer(prediction, question, self._wiring, seen, output="answer" if "answer" in outputs else last)


def adapts(candidate: object, wiring: Wiring) -> ModuleSystem | None:
    """Return the system of a DSPy module, or ``None`` for any other object.

    Raises:
        Refused: the card does not fit it.
    """
    if "dspy" not in sys.modules or isinstance(candidate, type):
        return None
    dspy = _dspy()
    if not isinstance(candidate, dspy.Module):
        return None
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    return ModuleSystem(candidate, wiring)


def _inputs(module: object) -> list[str]:
    """Return the names of a module's inputs: those of its signature, or the arguments of its ``forward``."""
    fields = at_path(module, "signature.input_fields")
    if isinstance(fields, Mapping):
        return list(fields)
    forward = getattr(type(module), "forward", None) or getattr(type(module), "aforward", None)
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = list(inspect.signature(forward).parameters.values())[1:] if callable(forward) else []
    names = [parameter.name for parameter in parameters if parameter.kind not in stars]
    inner = getattr(module, "predict", None)  # for a chain of thought, whose own arguments have no names
    return names or (_inputs(inner) if inner is not None else [])


def _dspy() -> Any:
    return import_module("dspy")  # DSPy is not installed in the environment of the type checker


class _DspyCallbacks:
    """Reports modules, models and tools of one attempt."""

    def __init__(self, seen: Observer, inputs: Mapping[str, object]) -> None:
        self._seen = seen
        self._inputs_of_attempt = inputs
        self._models: dict[str, tuple[str, ReportedCall]] = {}
        self._steps: dict[str, tuple[str, Mapping[str, object]]] = {}
        self._around: dict[str, str] = {}
        self._searches = 0

    def on_module_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """Report that an inner module begins. The whole module is the attempt itself."""
        keywords = _keyword_arguments(inputs)
        passages = next((keywords[key] for key in _PASSAGE_INPUTS if keywords.get(key)), None)
        if passages and not self._searches:  # a search outside DSPy
            self._report_passages(_query(keywords) or _query(self._inputs_of_attempt), passages, "context")
        self._steps[call_id] = ("" if not self._steps else type(instance).__name__, keywords)
        if self._steps[call_id][0]:
            self._around[call_id] = STEP.get()
            self._seen.entered(call_id, self._steps[call_id][0])
            STEP.set(call_id)

    def on_module_end(self, call_id: str, outputs: object, exception: Exception | None = None) -> None:
        """Report that a module ended."""
        node, keywords = self._steps.get(call_id, ("", {}))
        if passages := at_path(outputs, "passages"):
            self._report_passages(_query(keywords) or _query(self._inputs_of_attempt), passages, node or "retriever")
        if node:
            STEP.set(self._around.pop(call_id, ""))
            error = f"{type(exception).__name__}: {exception}" if exception else ""
            self._seen.left(call_id, node, {}, error)

    def on_lm_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """Report that a call of a language model begins."""
        self._models[call_id] = type(instance).__name__, ReportedCall(call_id)
        self._seen.model_called(call_id, "", True)

    def on_lm_end(self, call_id: str, outputs: object, exception: Exception | None = None) -> None:
        """Report that a call of a language model ended."""
        model, call = self._models.pop(call_id, ("LM", None))
        if call is not None:
            call.end()
        self._seen.model_called(call_id, f"a model of class {model}", False)

    def on_tool_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """Remember that a tool begins."""
        self._steps[call_id] = (str(getattr(instance, "name", "tool")), _keyword_arguments(inputs))

    def on_tool_end(self, call_id: str, outputs: object, exception: Exception | None = None) -> None:
        """Report the passages of a tool that ended. A tool that returns a list of texts is a search."""
        name, keywords = self._steps.get(call_id, ("tool", {}))
        self._report_passages(_query(keywords), outputs, name)

    def _report_passages(self, query: str, output: object, tool: str) -> None:
        """Report passages."""
        if passages := _passages(output):
            self._searches += 1
            self._seen.search_returned(query, passages, tool)


def _keyword_arguments(inputs: Mapping[str, object]) -> Mapping[str, object]:
    """Return the arguments of a call by name."""
    inside = inputs.get("kwargs")
    return inside if isinstance(inside, Mapping) and len(inputs) <= 2 else inputs


def _query(keywords: Mapping[str, object]) -> str:
    usual = ("query", "question", "query_or_queries", "search_query")
    texts = [keywords[key] for key in usual if isinstance(keywords.get(key), str)]
    return str(next(iter(texts), next((value for value in keywords.values() if isinstance(value, str)), "")))


def _passages(hits: object) -> Sequence[Mapping[str, object]]:
    """Convert a list of texts, or of objects that contain a text, to passages."""
    if not isinstance(hits, Sequence) or isinstance(hits, str):
        return ()
    fields = ("id", "title")
    texts = [(hit, hit if isinstance(hit, str) else at_path(hit, "long_text") or at_path(hit, "text")) for hit in hits]
    return passages_of(
        [{"text": text, **{name: at_path(hit, name) for name in fields}} if text else hit for hit, text in texts]
    )
