"""The names of runs in tables and pictures: their agents, and the distinguishing facts of runs with the same agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath

from ragrounds.base.specs import without_addresses
from ragrounds.evals.compare.comparison import Comparison, RunTotals
from ragrounds.ui.text import safe

_MIN_VERSION_LENGTH = 6
"""Minimum number of characters that are shown of a version."""
_PYTHON = re.compile(r"\bpython=([^],]+)")
_VERSION = re.compile(r"@([0-9a-f]{7,})$")


def agent_names(comparison: Comparison) -> dict[str, str]:
    """Return the name of each run by its id: the run's own name, else its agent's text.

    Runs with the same name are distinguished by their agents, else by models, corpora, retrievers and interpreters, as
    ``direct (openai:NAME)``, ``vanilla_rag (lib@75185c)``; if that is not enough, by their ids. Names are safe to show
    and contain no server's address.
    """
    same_name: dict[str, list[RunTotals]] = {}
    for row in comparison.rows:
        same_name.setdefault(row.name or without_addresses(row.agent), []).append(row)
    return {
        row.run: safe(f"{name} ({suffix})" if suffix else name)
        for name, rows in same_name.items()
        for row, suffix in zip(rows, _distinguishing_facts(rows), strict=True)
    }


def _distinguishing_facts(rows: Sequence[RunTotals]) -> list[str]:
    if len(rows) == 1:
        return [""]
    agents = [without_addresses(row.agent) for row in rows]
    if len(set(agents)) == len(rows):
        return agents
    searched = corpora_apart([row.corpus for row in rows])
    roles = dict.fromkeys(role for row in rows for role in row.models)
    labels = list[list[str]]()
    for shorten in (lambda spec: spec.partition("[")[0], str):
        facts = [[_model_text(row, role, shorten) for row in rows] for role in roles]
        facts += [searched, [shorten(row.retriever) for row in rows]]
        facts += [[_interpreter(row.agent, whole=shorten is str) for row in rows]]
        differing = [values for values in facts if len(set(values)) > 1]
        labels.append([", ".join(values[index] for values in differing if values[index]) for index in range(len(rows))])
        if len(set(labels[-1])) == len(rows):
            return labels[-1]
    return [", ".join(filter(None, (short, row.run))) for short, row in zip(labels[0], rows, strict=True)]


def _interpreter(agent: str, *, whole: bool) -> str:
    """Return the interpreter in an agent's text: the folder of its environment, or its `whole` path."""
    path = _PYTHON.search(agent)
    if path is None:
        return ""
    return f"python {path[1] if whole else PurePath(path[1]).parent.parent.name or path[1]}"


def _model_text(row: RunTotals, role: str, read: Callable[[str], str]) -> str:
    return ("" if role == "model" else f"{role}: ") + read(row.models.get(role, "-"))


def corpora_apart(searched: Sequence[str]) -> list[str]:
    """Return for each run the corpora that not all runs searched, as ``lib@75185c``.

    Versions are cut to the fewest characters that still differ. The texts are empty if all runs searched the same.

    Args:
        searched: the corpora of each run, as in its identity: versions joined by ``+``; empty if it searched none.
    """
    parts = [[corpus for corpus in text.split("+") if corpus] for text in searched]
    if len(set(searched)) < 2:
        return [""] * len(parts)
    shared = set(parts[0]).intersection(*parts)
    differing = {corpus for run in parts for corpus in run if corpus not in shared}
    size = _MIN_VERSION_LENGTH
    while len({_cut_version(corpus, size) for corpus in differing}) < len(differing):
        size += 2
    distinct = [[corpus for corpus in run if corpus not in shared] or run for run in parts]
    return ["+".join(_cut_version(corpus, size) for corpus in run) or "no corpus" for run in distinct]


def _cut_version(corpus: str, size: int) -> str:
    version = _VERSION.search(corpus)
    return corpus if version is None else f"{corpus[: version.start(1)]}{version[1][:size]}"
