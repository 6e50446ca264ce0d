"""Custom names of systems, as ``GPT-3.5 + RAG``: how they are written, and which run has which name.

A name is shown in tables, pictures and frames. It is no part of a run's identity: no call is repeated after a rename.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.store.run_names import LONGEST_NAME, kept_names, one_name, run_among
from ragrounds.evals.store.store import Store

_ALIAS = re.compile(r"""\s+as\s+(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^"\[\]]+?))\s*$""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def split_alias(text: str) -> tuple[str, str | None]:
    """Return an agent's text and its name: ``direct as "No search"``. The name is ``None`` if it has none.

    Raises:
        UserError: the name is too long.
    """
    match = _ALIAS.search(text)
    if match is None:
        return text, None
    quoted = match["quoted"]
    return text[: match.start()], _check_name(match["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted))


def parse_names(values: Iterable[str]) -> dict[str, str]:
    """Parse the values of ``--as``, each ``RUN=NAME``, and return names by run reference.

    Raises:
        UserError: a value has another form, or a run is named twice.
    """
    names: dict[str, str] = {}
    for text in values:
        run, equals, name = _split_at_equals(text)
        if not equals or not run.strip():
            raise UserError(f"--as {text!r}: expected RUN=NAME, such as 'direct=No search'.")
        if names.setdefault(run.strip(), name.strip()) != name.strip():
            raise UserError(f"--as gives {run.strip()!r} two names.")
    return names


def named_agents(agents: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Return agents' texts with their names for tables: ``direct as "No search"``.

    Args:
        agents: texts of agents.
        names: an agent's text, or its name without parameters if only one agent has it → its name for tables.

    Raises:
        UserError: a name is for none of the agents, or for several.
    """
    named = list(agents)
    for reference, name in names.items():
        matching = [index for index, text in enumerate(named) if split_alias(text)[0] == reference] or [
            index for index, text in enumerate(named) if split_alias(text)[0].partition("[")[0] == reference
        ]
        if len(matching) != 1:
            which = "several" if matching else "none"
            raise UserError(f"--as {reference!r} is {which} of the agents: {', '.join(named) or 'none was given'}.")
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        named[matching[0]] = f'{split_alias(named[matching[0]])[0]} as "{quoted}"'
    return named


def _split_at_equals(text: str) -> tuple[str, str, str]:
    """Split a text at its first equals sign outside brackets and quotes."""
    depth, quoted = 0, False
    for index, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif not quoted:
            depth += (letter == "[") - (letter == "]")
            if letter == "=" and depth <= 0:
                return text[:index], letter, text[index + 1 :]
    return text, "", ""


def _check_name(name: str) -> str:
    if len(" ".join(name.split())) > LONGEST_NAME:
        raise UserError(f"The name {name[:40]!r}… has {len(name):,} characters; at most {LONGEST_NAME} are shown.")
    return one_name(name)


def check_names(names: Mapping[str, str], option: str = "--as") -> dict[str, str]:
    """Check that names are valid and that each belongs to one system, and return them.

    Args:
        names: system → its name.
        option: option that set the names.

    Raises:
        UserError: two systems have the same name, or a name is too long.
    """
    checked = {system: _check_name(name) for system, name in names.items()}
    owners: dict[str, str] = {}
    for system, name in checked.items():
        if name and owners.setdefault(name, system) != system:
            raise UserError(f"{option} gives the name {name!r} to both {owners[name]} and {system}: names must differ.")
    return checked


def names_of(store: Store, runs: Sequence[Run], new_names: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the names of those runs that have one, by run id. A name that is given now replaces the stored one.

    Args:
        store: store of the names.
        runs: runs that are shown together.
        new_names: reference to a run (an id, the beginning of one, an agent's text) → name; if empty, the run is shown
            by its agent's text.

    Raises:
        UserError: a reference matches none or several of the runs, or two runs get the same name.
    """
    stored, requested = kept_names(store.engine), dict[str, str]()
    for reference, name in (new_names or {}).items():
        run = run_among(reference, runs, "--as", stored)
        if requested.setdefault(run.id, name) != name:
            raise UserError(f"--as gives the run {run.id} two names.")
    names = {run.id: stored[run.id] for run in runs if run.id in stored} | check_names(requested)
    return {run: name for run, name in names.items() if name}


def with_agents(runs: Sequence[Run], names: Mapping[str, str]) -> dict[str, str]:
    """Return names by run id, and by the text of every agent that only one run has.

    Names that two runs share are left out.
    """
    agents, name_counts = Counter(run.agent for run in runs), Counter(names.values())
    distinct = {run.id: names[run.id] for run in runs if run.id in names and name_counts[names[run.id]] == 1}
    return distinct | {run.agent: distinct[run.id] for run in runs if run.id in distinct and agents[run.agent] == 1}


def planned_names(planned_runs: Sequence[PlannedRun], requested_names: Sequence[str | None]) -> dict[str, str]:
    """Return new names of planned runs by run id: the given name, else the name in the agent's file.

    Args:
        planned_runs: the runs.
        requested_names: the name of each run; empty to remove its name, ``None`` if it was not given. An empty sequence
            if no agent was named.
    """
    names = {}
    for planned, name in zip(planned_runs, requested_names or [None] * len(planned_runs), strict=True):
        if name is not None:
            names[planned.run.id] = name
        elif file_name := planned.agent.card.alias:  # with the parameters that the agent's text changes
            changed = planned.run.agent.partition("[")[2].removesuffix("]")
            names[planned.run.id] = f"{file_name} [{changed}]" if changed else file_name
    return names
