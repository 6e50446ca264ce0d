"""The names of runs in tables and pictures: their agents, and what distinguishes those that are called alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ragrounds.base.specs import without_addresses
from ragrounds.evals.compare.comparison import Comparison, RunTotals
from ragrounds.ui.text import safe

_LEAST = 6
"""Characters of a version at least."""
_VERSION = re.compile(r"@([0-9a-f]{7,})$")


def agent_names(comparison: Comparison) -> dict[str, str]:
    """Run id → its name, else its agent's text. Runs that are called alike are distinguished by their agents, else by
    models, corpora and retrievers, as ``direct (openai:NAME)``, ``vanilla_rag (lib@75185c)``; where that is not enough,
    by their ids. Safe to show; no server's address is in one."""
    alike: dict[str, list[RunTotals]] = {}
    for row in comparison.rows:
        alike.setdefault(row.name or without_addresses(row.agent), []).append(row)
    return {
        row.run: safe(f"{called} ({apart})" if apart else called)
        for called, rows in alike.items()
        for row, apart in zip(rows, _apart(rows), strict=True)
    }


def _apart(rows: Sequence[RunTotals]) -> list[str]:
    if len(rows) == 1:
        return [""]
    agents = [without_addresses(row.agent) for row in rows]
    if len(set(agents)) == len(rows):
        return agents
    searched = corpora_apart([row.corpus for row in rows])
    roles = dict.fromkeys(role for row in rows for role in row.models)
    said = list[list[str]]()
    for read in (lambda spec: spec.partition("[")[0], str):
        facts = [[_model(row, role, read) for row in rows] for role in roles]
        facts += [searched, [read(row.retriever) for row in rows]]
        differing = [fact for fact in facts if len(set(fact)) > 1]
        said.append([", ".join(fact[place] for fact in differing if fact[place]) for place in range(len(rows))])
        if len(set(said[-1])) == len(rows):
            return said[-1]
    return [", ".join(filter(None, (short, row.run))) for short, row in zip(said[0], rows, strict=True)]


def _model(row: RunTotals, role: str, read: Callable[[str], str]) -> str:
    return ("" if role == "model" else f"{role}: ") + read(row.models.get(role, "-"))


def corpora_apart(searched: Sequence[str]) -> list[str]:
    """Of each run the corpora that not all of them searched, as ``lib@75185c``: of a version so many characters that
    all differ; nothing where they searched the same.

    Args:
        searched: of each run its corpora, as in its identity: versions joined by ``+``; empty: none.
    """
    parts = [[one for one in text.split("+") if one] for text in searched]
    if len(set(searched)) < 2:
        return [""] * len(parts)
    shared = set(parts[0]).intersection(*parts)
    wanted = {one for run in parts for one in run if one not in shared}
    size = _LEAST
    while len({_cut(one, size) for one in wanted}) < len(wanted):
        size += 2
    own = [[one for one in run if one not in shared] or run for run in parts]
    return ["+".join(_cut(one, size) for one in run) or "no corpus" for run in own]


def _cut(corpus: str, size: int) -> str:
    found = _VERSION.search(corpus)
    return corpus if found is None else f"{corpus[: found.start(1)]}{found[1][:size]}"
