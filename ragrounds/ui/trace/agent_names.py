"""Names of agents for narrow columns: what runs share is left out, what tells them apart stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from os.path import commonprefix

from ragrounds.records import Run
from ragrounds.ui.text import safe
from ragrounds.ui.trace.layout import fit

_COMMON = 6
"""Characters that names must have in common to be left out."""
_BREAKS = "[,:/ (-"
"""After one of these a name may be cut: parameters and the ends of ids stay whole."""


def short_names(runs: Sequence[Run]) -> dict[str, str]:
    """Run id → the agent's name for a narrow column, without what all of them begin and end with; runs of one agent
    have their ids; empty for one run."""
    if len(runs) < 2:
        return {}
    counted = Counter(run.agent for run in runs)
    names = [safe(run.agent if counted[run.agent] == 1 else run.id) for run in runs]
    return dict(zip((run.id for run in runs), _without_shared(names), strict=True))


def agent_cell(agents: Mapping[str, str], run: str, size: int) -> str:
    """The name of a run in `size` cells, which no other run has there.

    Args:
        agents: run id → name, as :func:`short_names` gives them.
        run: its id.
        size: of the column.
    """
    return fit(_fitted(tuple(agents.items()), size).get(run, ""), size)


@lru_cache(maxsize=64)
def _fitted(agents: tuple[tuple[str, str], ...], size: int) -> dict[str, str]:
    """Names of at most this size: those too long lose what they share, else their beginning; where that makes two
    alike, all are numbers."""
    long = [name for _, name in agents if len(name) > size]
    shorter = dict(zip(long, _without_shared(long), strict=True))
    made = {
        run: name if len(name) <= size else f"…{name[1 - size :]}" if size > 1 else name
        for run, name in ((run, shorter.get(name, name)) for run, name in agents)
    }
    if len(set(made.values())) == len(made):
        return made
    return {run: f"#{number}" for number, (run, _) in enumerate(agents, 1)}


def _without_shared(names: Sequence[str]) -> list[str]:
    """Names without a long beginning that all have, and then without the bracket that all end with."""
    if len(set(names)) < 2:
        return list(names)
    shared = commonprefix(list(names))  # noqa: RUF071 (by letters)
    cut = max(shared.rfind(mark) + 1 for mark in _BREAKS)
    if cut <= _COMMON or any(len(name) == cut for name in names):
        return list(names)
    rest = [name[cut:] for name in names]
    if all(name.endswith("]") and "[" not in name for name in rest):
        rest = [name[:-1] for name in rest]
    return [f"…{name}" for name in rest]
