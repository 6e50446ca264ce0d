"""The catalogue of the built-in graphs, by name: `ragrounds/graphs/NAME.py` with a function `build`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from ragrounds.base.digests import code_digest
from ragrounds.base.errors import unknown
from ragrounds.base.specs import Value

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

Graph: TypeAlias = "StateGraph[Any, Any, Any, Any]"


def names() -> list[str]:
    """List the built-in graphs, without importing any."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if has(module.name))


def build(name: str) -> Graph:
    """Build a graph.

    Raises:
        UserError: the graph does not exist.
    """
    graph: Graph = _module(name).build()
    return graph


@cache
def compiled(name: str) -> Any:
    """Return a graph, compiled. It holds no state of an attempt, so all runs of a process share it.

    Raises:
        UserError: the graph does not exist.
    """
    return build(name).compile()


def nests(name: str, parameters: Mapping[str, Value]) -> bool:
    """Return True if graphs run inside this graph's nodes.

    Streaming their steps costs every attempt about a millisecond, so it is done only if there are any.
    """
    nests_function = getattr(_module(name), "nests", None)
    return bool(agents_in(name)) or (nests_function is not None and bool(nests_function(parameters)))


@cache
def agents_in(name: str) -> tuple[str, ...]:
    """Return the parameters of a graph that name agents which run inside it."""
    return tuple(getattr(_module(name), "AGENTS", ()))


def refining() -> ModuleType:
    """Return the module of the stage between search and prompt: `PROMPTS`, ``read_way`` and ``refined``."""
    return importlib.import_module(f"{__name__.rpartition('.')[0]}.refining")


def prompts_of(name: str, *, tools: bool = False) -> tuple[str, ...]:
    """Return the names of the prompts that a graph may render.

    With `tools`, those of an agent that lists tools are included.
    """
    module = _module(name)
    return (*module.PROMPTS, *(getattr(module, "TOOL_PROMPTS", ()) if tools else ()))


def about(name: str) -> str:
    """Return the docstring of a graph's file: the paper it follows, its limits, its differences, and who sees the
    options.
    """
    return inspect.cleandoc(_module(name).__doc__ or "")


def digest(name: str) -> str:
    """Return the digest of a graph, with the graphs and helpers that it imports.

    It is a part of a run's fingerprint, so that a changed graph makes a different run. Comments and layout do not
    count.
    """
    module = refining() if name == "refining" else _module(name)
    return code_digest(module.__name__, within=(__name__.rpartition(".")[0],))


def _module(name: str) -> ModuleType:
    if not has(name):
        raise unknown("graph", name, names(), "ragrounds list agents")
    return importlib.import_module(f"{__name__.rpartition('.')[0]}.{name}")


def has(name: str) -> bool:
    """Return True if a built-in graph has this name, by its file alone."""
    full = f"{__name__.rpartition('.')[0]}.{name}"
    spec = importlib.util.find_spec(full) if name.isidentifier() else None
    if spec is None or full == __name__:
        return False
    if spec.loader is not None and hasattr(spec.loader, "get_source"):
        source = spec.loader.get_source(full) or ""
    else:  # pytest's loader, which imports the modules of an installed plugin's package, has no such method
        source = Path(spec.origin).read_text(encoding="utf-8") if spec.origin else ""
    return "\ndef build(" in source
