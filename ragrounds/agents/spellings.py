"""Which runs an agent's text means: those of the same agent, however it is spelled.

A run keeps its agent's canonical text. ``vanilla_rag[top_k=32]``, ``vanilla_rag[ top_k = 32 ]`` and ``vanilla_rag`` are
one agent, and so is what a profile is written out to. No code is run to look a text up.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from ragrounds.agents.agent import DEFAULT_RETRIEVER, named_inside, names, open_agent
from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.base.records import Run
from ragrounds.base.specs import Spec, parse
from ragrounds.base.text import parse_toml
from ragrounds.graphs import catalogue
from ragrounds.tools.retriever import code_in


def runs_of_agent(reference: str, runs: Iterable[Run]) -> list[Run]:
    """Those of some runs whose agent a text means, in their order: by the text itself, else by what it is read as.

    Args:
        reference: Whatever was typed; one that is no agent's text means none.
        runs: Stored runs.
    """
    known = list(runs)
    if exact := [run for run in known if run.agent == reference]:
        return exact
    try:
        spec = parse(reference)
        spelled = {model: _canonical(spec, model) for model in {_model(run) for run in known}}
    except UserError:
        return []
    return [run for run in known if run.agent == spelled[_model(run)]]


def _canonical(spec: Spec, model: str) -> str:
    """The canonical text of an agent with this model; of one that would run code, the text's plain form."""
    return open_agent(spec, model=model or None).spec if _is_data(spec) else str(spec)


def _is_data(spec: Spec) -> bool:
    """Whether an agent ships, or is a file that names no code; and so do those that its text names inside it."""
    name = spec.name
    if name in names():
        return all(_is_data(one) for one in named_inside(spec))
    if not name.endswith(".toml") or not Path(name).is_file():
        return False
    try:
        table = parse_toml(read_text(Path(name)))
    except tomllib.TOMLDecodeError:
        return False
    retriever = parse(str(table.get("retriever", DEFAULT_RETRIEVER)))
    plain = table.get("graph") in catalogue.names() and not code_in(retriever)
    return plain and all(_is_data(one) for one in named_inside(spec))


def _model(run: Run) -> str:
    models = run.identity.get("models")
    return str(models.get("model", "")) if isinstance(models, Mapping) else ""
