"""What works here: places, extras, what installed packages add, and what a model's server can do."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ragrounds.api.servers import server_defaults
from ragrounds.api.workspace import chosen_settings, open_store
from ragrounds.errors import nearest

if TYPE_CHECKING:
    from ragrounds.models.providers import ServerCapabilities
    from ragrounds.plugins import ExtensionPoint
    from ragrounds.settings import Settings

EXTRAS = {
    "chinese": "jieba",
    "dense": "chromadb",
    "export": "pyarrow",
    "fast": "numba",
    "files": "bs4",
    "inspect": "inspect_ai",
    "local": "sentence_transformers",
    "mcp": "mcp",
    "pandas": "pandas",
    "polars": "polars",
    "postgresql": "psycopg",
    "ragas": "ragas",
    "ray": "ray",
    "train": "peft",
    "vllm": "vllm",
    "web": "trafilatura",
}
"""Extra → a module that it brings."""


class Addition(Struct, frozen=True, kw_only=True):
    """Something that an installed package adds by an entry point."""

    kind: str
    """``scorer``, ``agent``, ``benchmark``, ``retriever``, ``analysis``, ``export format``; empty: no such group."""
    name: str
    """What users type."""
    package: str
    version: str
    group: str
    """The group of entry points: ``ragrounds.scorers``."""
    value: str
    """``package.module:NAME``."""
    fault: str = ""
    """Why it cannot be used; empty: it can."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What :func:`doctor` found."""

    ragrounds: str
    """The version."""
    python: str
    home: str
    settings: str
    """The settings file, and whether it is there."""
    store: str
    """Where runs are kept, and how many."""
    extras: dict[str, bool]
    """Extra of this package → whether it is installed."""
    additions: tuple[Addition, ...]
    """What installed packages add, by kind and name."""
    model: ServerCapabilities | None = None
    """``None``: no model was named."""


def doctor(
    model: str | None = None,
    base_url: str | None = None,
    alias: str | None = None,
    *,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> Diagnosis:
    """Say where things live, which extras are here, what was added from outside, and what a model's server can do.

    Every installed package that adds something is imported. With a model, its server is asked a few questions of some
    twenty tokens each.

    Args:
        model: ``provider:model``.
        base_url, alias: of its server, where it is OpenAI-compatible, and a name for several; by default the settings'.
        home, settings: the folder of runs and journal, and all settings; ``None``: the user's.

    Raises:
        UserError: the model's text is wrong, or the store cannot be opened.
        StopRun: the server cannot be reached, refuses the key or does not know the model.
    """
    import platform

    from ragrounds.api.event_loop import finish
    from ragrounds.models.options import with_defaults
    from ragrounds.models.providers import probe
    from ragrounds.settings import settings_file
    from ragrounds.version import __version__

    chosen = chosen_settings(settings, home)
    with open_store(chosen) as store:
        place, runs = store.place, len(store.runs())
    probed = None
    if model is not None:
        text = with_defaults(model, {**server_defaults(base_url, alias, chosen), "timeout": 60.0})
        probed = finish(probe(text))
    return Diagnosis(
        ragrounds=__version__,
        python=platform.python_version(),
        home=str(chosen.home),
        settings=str(settings_file()) + ("" if settings_file().is_file() else " (not there: defaults)"),
        store=f"{place}, {runs:,} runs",
        extras={name: find_spec(module) is not None for name, module in EXTRAS.items()},
        additions=tuple(additions()),
        model=probed,
    )


def additions() -> list[Addition]:
    """What installed packages add, by kind and name, with what is wrong with it. All of them are imported."""
    from ragrounds.plugins import declared

    points = {point.group: point for point in _points()}
    found = [(points[group].noun, each) for group in points for each in points[group].additions()]
    for each in declared("ragrounds."):
        if each.group not in points:
            hint = nearest(each.group, points) or f" Groups: {', '.join(points)}."
            found.append(("", each._replace(fault=f"there is no such group.{hint}")))
    return [
        Addition(
            kind=kind,
            name=each.name,
            package=each.package,
            version=each.version,
            group=each.group,
            value=each.value,
            fault=each.fault,
        )
        for kind, each in found
    ]


def _points() -> list[ExtensionPoint[Any]]:
    from ragrounds.agents.agent import AGENTS
    from ragrounds.evals.analyses.analysis import ANALYSES
    from ragrounds.evals.benchmarks.family import FAMILIES
    from ragrounds.evals.exchange.formats import EXPORTS
    from ragrounds.evals.scorers.catalogue import SCORERS
    from ragrounds.tools.retriever import RETRIEVERS

    return [SCORERS, AGENTS, FAMILIES, RETRIEVERS, ANALYSES, EXPORTS]
