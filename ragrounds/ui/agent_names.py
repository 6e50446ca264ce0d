"""The names of runs in tables and pictures: their agents, and the distinguishing facts of runs with the same agent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from os.path import commonprefix
from pathlib import PurePath
from types import MappingProxyType

from msgspec import Struct

from ragrounds.base.records import Run
from ragrounds.base.specs import without_addresses
from ragrounds.evals.compare.comparison import Comparison, RunTotals
from ragrounds.ui.text import safe, shorten_middle

_MIN_VERSION_LENGTH = 6
"""Minimum number of characters that are shown of a version."""
_PYTHON = re.compile(r"\bpython=([^],]+)")
_VERSION = re.compile(r"@([0-9a-f]{7,})$")


class NamedRun(Struct, frozen=True, kw_only=True):
    """Facts of a run by which it can be named; :class:`RunTotals` has them too."""

    run: str
    agent: str
    models: Mapping[str, str]
    corpus: str
    retriever: str
    name: str


def agent_names(comparison: Comparison) -> dict[str, str]:
    """Return the name of each run of a comparison by its id, as :func:`unique_names` does."""
    return unique_names(comparison.rows)


def names_of_runs(runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the name of each run by its id, as :func:`unique_names` does; counterfactuals are named by their change.

    Args:
        runs: runs that are shown together.
        names: run id → name, for runs that have one.
    """
    changes = {run.id: f"with {it['change']}" for run in runs if (it := run.identity.get("counterfactual"))}
    return unique_names(
        [
            NamedRun(
                run=run.id,
                agent=run.agent,
                models=run.identity.get("models") or {},
                corpus=str(run.identity.get("corpus") or ""),
                retriever=str(run.identity.get("retriever") or ""),
                name=names.get(run.id) or changes.get(run.id, ""),
            )
            for run in runs
        ]
    )


def unique_names(rows: Sequence[RunTotals | NamedRun]) -> dict[str, str]:
    """Return the name of each run by its id: the run's own name, else its agent's text.

    Runs with the same name are distinguished by their agents, else by models, corpora, retrievers and interpreters, as
    ``direct (openai:NAME)``, ``vanilla_rag (lib@75185c)``; if that is not enough, by their ids. Names are safe to show
    and contain no server's address.
    """
    same_name: dict[str, list[RunTotals | NamedRun]] = {}
    for row in rows:
        same_name.setdefault(name_of_run(row), []).append(row)
    return {
        row.run: safe(f"{name} ({suffix})" if suffix else name)
        for name, same in same_name.items()
        for row, suffix in zip(same, _distinguishing_facts(same), strict=True)
    }


def name_of_run(row: RunTotals | NamedRun) -> str:
    """Return a run's own name, else its agent's text without addresses; other runs may have the same."""
    return row.name or without_addresses(row.agent)


def short_names(names: Mapping[str, str], width: int) -> dict[str, str]:
    """Return names, of which those wider than `width` are shortened by what they have in common with each other.

    That is the parameters at the beginning and the end of the texts of one agent: ``rag[retriever=dense,top_k=4]``
    and ``rag[retriever=dense,top_k=8]`` are ``rag[…,top_k=4]`` and ``rag[…,top_k=8]``. A long name without another
    of its agent loses its middle. Names that would be the same then are whole.

    Args:
        names: by run id, each different.
        width: in terminal columns.
    """
    short = {run: shorten_middle(name, width) for run, name in names.items()}
    by_agent: dict[str, list[str]] = {}
    for run, name in names.items():
        if short[run] != name:
            by_agent.setdefault(name.partition("[")[0], []).append(run)
    for runs in (runs for runs in by_agent.values() if len(runs) > 1):
        texts = [names[run] for run in runs]
        start = max(commonprefix(texts).rfind(mark) for mark in "[,") + 1  # noqa: RUF071 (by letters)
        rest = [text[start:] for text in texts]
        shared_end = commonprefix([text[::-1] for text in rest])[::-1]  # noqa: RUF071
        end = min((at for mark in ",]" if (at := shared_end.find(mark)) >= 0), default=len(shared_end))
        agent = texts[0].partition("[")[0]
        is_cut_at_start, n_end = start > len(agent) + 1, len(shared_end) - end
        for run, text in zip(runs, rest, strict=True):
            middle = text[: len(text) - n_end]
            ending = ",…]" if n_end > 1 and shared_end[end] == "," else shared_end[end:]
            beginning = f"{agent}[…," if is_cut_at_start else names[run][:start]
            short[run] = f"{beginning}{middle}{ending}"
    counts = Counter(short.values())
    return {run: text if counts[text] == 1 else names[run] for run, text in short.items()}


def _distinguishing_facts(rows: Sequence[RunTotals | NamedRun]) -> list[str]:
    if len(rows) == 1:
        return [""]
    agents = [without_addresses(row.agent) for row in rows]
    if len(set(agents)) == len(rows):
        return agents
    searched = corpora_apart([row.corpus for row in rows])
    roles = dict.fromkeys(role for row in rows for role in row.models)
    labels = list[list[str]]()
    for shorten in (lambda spec: spec.partition("[")[0], str):
        facts = [
            [("" if role == "model" else f"{role}: ") + shorten(row.models.get(role, "-")) for row in rows]
            for role in roles
        ]
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
