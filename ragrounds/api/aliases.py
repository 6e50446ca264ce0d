"""Names of their own for systems, as ``GPT-3.5 + RAG``: how they are given, and which run has which.

A name is shown in tables, pictures and frames. It is no part of what a run is: another name asks nobody again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.store.run_names import LONGEST_NAME, keep_names, kept_names, one_name, run_among
from ragrounds.evals.store.store import Store

_AS = re.compile(r"""\s+as\s+(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^"\[\]]+?))\s*$""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def split_alias(text: str) -> tuple[str, str | None]:
    """An agent's text and the name it is given: ``direct as "No search"``. ``None``: it is given none.

    Raises:
        UserError: a name that is too long.
    """
    found = _AS.search(text)
    if found is None:
        return text, None
    quoted = found["quoted"]
    return text[: found.start()], _checked(found["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted))


def parse_names(given: Iterable[str]) -> dict[str, str]:
    """The values of ``--as``, each ``RUN=NAME``: what names a run → the name it is given.

    Raises:
        UserError: a value of another form, or one run twice.
    """
    names: dict[str, str] = {}
    for text in given:
        run, equals, name = _divided(text)
        if not equals or not run.strip():
            raise UserError(f"--as {text!r}: expected RUN=NAME, such as 'direct=No search'.")
        if names.setdefault(run.strip(), name.strip()) != name.strip():
            raise UserError(f"--as gives {run.strip()!r} two names.")
    return names


def _divided(text: str) -> tuple[str, str, str]:
    """A text at its first equals sign that stands in no brackets and no quotes."""
    depth, quoted = 0, False
    for place, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif not quoted:
            depth += (letter == "[") - (letter == "]")
            if letter == "=" and depth <= 0:
                return text[:place], letter, text[place + 1 :]
    return text, "", ""


def _checked(name: str) -> str:
    if len(" ".join(name.split())) > LONGEST_NAME:
        raise UserError(f"The name {name[:40]!r}… has {len(name):,} characters; at most {LONGEST_NAME} are shown.")
    return one_name(name)


def check_names(names: Mapping[str, str], option: str = "--as") -> dict[str, str]:
    """Names as they are shown, where each stands for one system.

    Args:
        names: what is named → its name.
        option: how they were given.

    Raises:
        UserError: one name for two, or one that is too long.
    """
    shown = {system: _checked(name) for system, name in names.items()}
    owners: dict[str, str] = {}
    for system, name in shown.items():
        if name and owners.setdefault(name, system) != system:
            raise UserError(f"{option} gives the name {name!r} to both {owners[name]} and {system}: names must differ.")
    return shown


def names_of(store: Store, runs: Sequence[Run], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run id → what it is called, for those of the runs that have a name: given now, or kept in the store.

    Args:
        store: where names are kept.
        runs: that are shown together.
        given: what names one of them (an id, the beginning of one, an agent's text) → a name; an empty one: it is shown
            by its agent's text.

    Raises:
        UserError: something that names none or several of the runs; one name for two of them.
    """
    kept, wanted = kept_names(store.engine), dict[str, str]()
    for reference, name in (given or {}).items():
        run = run_among(reference, runs, "--as", kept)
        if wanted.setdefault(run.id, name) != name:
            raise UserError(f"--as gives the run {run.id} two names.")
    names = {run.id: kept[run.id] for run in runs if run.id in kept} | check_names(wanted)
    return {run: name for run, name in names.items() if name}


def with_agents(runs: Sequence[Run], names: Mapping[str, str]) -> dict[str, str]:
    """Run id, and the text of an agent that one of the runs alone has → name; names that two runs have are left out."""
    agents, called = Counter(run.agent for run in runs), Counter(names.values())
    own = {run.id: names[run.id] for run in runs if run.id in names and called[names[run.id]] == 1}
    return own | {run.agent: own[run.id] for run in runs if run.id in own and agents[run.agent] == 1}


def keep_planned_names(store: Store, planned_runs: Sequence[PlannedRun], given: Sequence[str | None]) -> None:
    """Keep what the planned runs are called: as they were named now, else as their agents' files say; a run of which
    neither says anything keeps the name that it has.

    Args:
        store: where they are kept.
        planned_runs: the runs.
        given: for each the name that it was given now; empty: it is to have none; ``None``: none was given. None at
            all: no agent was named.
    """
    names = {}
    for planned, own in zip(planned_runs, given or [None] * len(planned_runs), strict=True):
        name = _of_card(planned) if own is None else own
        if name is not None:
            names[planned.run.id] = name
    if names:
        keep_names(store.engine, names)


def _of_card(planned: PlannedRun) -> str | None:
    """What the agent's file calls it, with what its text sets differently."""
    name = planned.agent.card.alias
    if not name:
        return None
    changed = planned.run.agent.partition("[")[2].removesuffix("]")
    return f"{name} [{changed}]" if changed else name
