"""Lookup of an agent's runs by its text, however it is spelled.

A run stores its agent's canonical text. ``vanilla_rag[top_k=32]``, ``vanilla_rag[ top_k = 32 ]`` and ``vanilla_rag``
are the same agent, and so is the expanded text of a profile. No code is run to look up a text.
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
    """Return the runs whose agent a text names, in their order: by the exact text, else by its canonical form.

    Args:
        reference: The typed text. If it is not an agent's text, no run matches.
        runs: Stored runs.
    """
    all_runs = list(runs)
    if exact := [run for run in all_runs if run.agent == reference]:
        return exact
    try:
        spec = parse(reference)
        canonical_by_model = {
            # If opening it would run code, the text's plain form is used.
            model: open_agent(spec, model=model or None).spec if _is_data(spec) else str(spec)
            for model in {_model(run) for run in all_runs}
        }
    except UserError:
        return []
    return [run for run in all_runs if run.agent == canonical_by_model[_model(run)]]


def _is_data(spec: Spec) -> bool:
    """Return True if an agent ships, or is a file that names no code. The same must hold for its inner agents."""
    name = spec.name
    if name in names():
        return all(_is_data(inner) for inner in named_inside(spec))
    if not name.endswith(".toml") or not Path(name).is_file():
        return False
    try:
        table = parse_toml(read_text(Path(name)))
    except tomllib.TOMLDecodeError:
        return False
    retriever = parse(str(table.get("retriever", DEFAULT_RETRIEVER)))
    plain = table.get("graph") in catalogue.names() and not code_in(retriever)
    return plain and all(_is_data(inner) for inner in named_inside(spec))


def _model(run: Run) -> str:
    models = run.identity.get("models")
    return str(models.get("model", "")) if isinstance(models, Mapping) else ""
