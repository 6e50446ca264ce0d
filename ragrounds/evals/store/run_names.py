"""What runs are called: their ids, the beginnings of these, their agents' texts, and names that users give them.

A name that fits several runs is taken for one of them, and a line says for which. A name of a user's stands in the
table `meta` and is no part of what a run is: neither a fingerprint nor the journal knows of it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from shlex import quote

import sqlalchemy as sa

from ragrounds.agents.spellings import runs_of_agent
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Run
from ragrounds.base.text import file_name
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import insert_new, upsert
from ragrounds.evals.store.schema import RUN_NAME, meta

_NAMED = 6
"""Runs that a message names."""
LONGEST_NAME = 120
"""Characters of a name."""


def one_name(text: str) -> str:
    """A name as it is kept and shown: in one line, of at most `LONGEST_NAME` characters."""
    return " ".join(text.split())[:LONGEST_NAME]


def keep_names(engine: sa.Engine, names: Mapping[str, str]) -> None:
    """Keep what runs are called.

    Args:
        engine: of the store.
        names: run id → name; an empty one takes the name away.
    """
    kept = [{"key": f"{RUN_NAME}{run}", "value": name} for run, text in names.items() if (name := one_name(text))]
    gone = [f"{RUN_NAME}{run}" for run, text in names.items() if not one_name(text)]
    with engine.begin() as connection:
        if kept:
            connection.execute(upsert(engine, meta), kept)
        if gone:
            connection.execute(sa.delete(meta).where(meta.c.key.in_(gone)))


def kept_names(engine: sa.Engine) -> dict[str, str]:
    """Run id → name, of the runs of a store that have one."""
    wanted = sa.select(meta.c.key, meta.c.value).where(meta.c.key.startswith(RUN_NAME))
    with engine.connect() as connection:
        rows = connection.execute(wanted).all()
    names = {str(key).removeprefix(RUN_NAME): one_name(str(value)) for key, value in rows}
    return {run: name for run, name in names.items() if name}


def copy_names(source: sa.Engine, target: sa.Engine, runs: Container[str]) -> None:
    """Copy what these runs are called into another store; a run that has a name there keeps it."""
    rows = [{"key": f"{RUN_NAME}{run}", "value": name} for run, name in kept_names(source).items() if run in runs]
    if rows:
        with target.begin() as connection:
            connection.execute(insert_new(target, meta), rows)


def made_attempts(connection: sa.Connection, runs: Sequence[Run]) -> dict[str, int]:
    """Run id → how many of its attempts have been made, whatever came of them."""
    table, known = schema.attempts, schema.runs
    counted = (
        sa.select(known.c.id, sa.func.count())
        .select_from(known.join(table, table.c.run == known.c.number))
        .where(known.c.id.in_([run.id for run in runs]), table.c.status != "not_run")
        .group_by(known.c.id)
    )
    return {row[0]: row[1] for row in connection.execute(counted)}


def is_complete(run: Run, made: Mapping[str, int]) -> bool:
    """Whether every attempt of a run has been made."""
    return made.get(run.id, 0) >= run.count * run.epochs


def fitting_runs(
    reference: str, runs: Sequence[Run], names: Mapping[str, str] | None = None, *, bare: bool = False
) -> list[Run]:
    """The runs that a text may mean, in their order: the one of this id, else all of this agent, else those whose ids
    begin so, else those that are called so; none where nothing fits.

    Args:
        reference: whatever was typed.
        runs: among which it is looked for.
        names: run id → what users call it.
        bare: an agent's name without its parameters is enough.
    """
    return (
        [run for run in runs if run.id == reference]
        or runs_of_agent(reference, runs)
        or [run for run in runs if bare and run.agent.partition("[")[0] == reference]
        or [run for run in runs if run.id.startswith(reference)]
        or [run for run in runs if (names or {}).get(run.id) == reference]
    )


def find_runs(
    references: Sequence[str], runs: Sequence[Run], place: str, names: Mapping[str, str] | None = None
) -> list[list[Run]]:
    """For each of some names the runs of a store that it may mean, oldest first.

    Args:
        references: ids, beginnings of ids, agents' texts, or names.
        runs: all of the store.
        place: where the store is, for the error.
        names: run id → what users call it.

    Raises:
        UserError: one means no run, or is the beginning of ids of several agents' runs.
    """
    found = [fitting_runs(reference, runs, names) for reference in references]
    for reference, fitting in zip(references, found, strict=True):
        if not fitting:
            near = nearest(reference, [name for run in runs for name in (run.id, run.agent)])
            raise UserError(f"There is no run {reference!r} in {place}.{near} See `ragrounds runs ls`.")
        agents = list(dict.fromkeys(quote(run.agent) for run in reversed(fitting)))
        if len(agents) > 1 and all(run.id.startswith(reference) for run in fitting):
            more = f" (of {len(agents)}: `ragrounds runs ls` has all)" if len(agents) > _NAMED else ""
            raise UserError(
                f"{reference!r} matches several runs. Give one of these names: {', '.join(agents[:_NAMED])}{more}."
            )
    return found


def run_among(reference: str, runs: Sequence[Run], where: str, names: Mapping[str, str] | None = None) -> Run:
    """The one of some runs shown together that a text means; `names`: run id → what users call it.

    Raises:
        UserError: none, or several; `where` says in what it was named.
    """
    unique = list({run.id: run for run in runs}.values())
    fitting = fitting_runs(reference, unique, names, bare=True)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        ids = ", ".join(run.id for run in fitting)
        raise UserError(f"{where} {reference!r} matches several of the runs: {ids}. Give an id.")
    called = [name for run in unique if (name := (names or {}).get(run.id))]
    near = nearest(reference, [*called, *(name for run in unique for name in (run.agent, run.id))])
    shown = ", ".join((names or {}).get(run.id) or run.id for run in unique[:_NAMED])
    raise UserError(f"{where} {reference!r} matches none of the runs shown ({shown}).{near}")


def best_fitting(fitting: Sequence[Sequence[Run]], made: Mapping[str, int]) -> list[Run]:
    """The run that each of some names means that are given together.

    Where all names have runs on one set of questions, those are meant: of several sets the one on which most of the
    names have a complete run, else the newest. Of a name's runs the newest complete one is meant, else the newest with
    an attempt, else the newest.

    Args:
        fitting: for each name the runs that it fits, oldest first.
        made: run id → how many of its attempts have been made.
    """

    def best(found: Iterable[Run]) -> Run:
        return max(reversed(list(found)), key=lambda run: (is_complete(run, made), made.get(run.id, 0) > 0))

    shared = set.intersection(*({run.questions for run in found} for found in fitting)) if fitting else set()
    picks = [[best(run for run in found if run.questions == one) for found in fitting] for one in sorted(shared)]
    if not picks:
        return [best(found) for found in fitting]
    return max(picks, key=lambda runs: (sum(is_complete(run, made) for run in runs), max(run.created for run in runs)))


def chosen_line(reference: str, run: Run, fitting: Sequence[Run], made: Mapping[str, int]) -> str:
    """What a name was taken for, in one line."""
    whole, done = run.count * run.epochs, made.get(run.id, 0)
    far = f"{whole:,}" if done == whole else f"{done:,}/{whole:,}"
    newer = fitting[[one.id for one in fitting].index(run.id) + 1 :]
    complete = is_complete(run, made)
    whose = "the newest complete one" if complete else "the newest"
    if not newer:
        which = f"the newest of {len(fitting):,} runs"
    elif complete and not any(is_complete(one, made) for one in newer):
        which = f"{whose} of {len(fitting):,} runs"
    else:
        which = f"of {len(fitting):,} runs {whose} on the same questions as the others"
    return f"{reference}: {run.id} ({run.benchmark}, {far} done), {which}"


def new_run_id(agent: str, fingerprint: str, taken: Iterable[str]) -> str:
    """A short readable id: the agent's name and the beginning of the fingerprint, with a number where it is taken.
    Whatever the agent's text, it is a file name on every system."""
    base, known = f"{file_name(agent, 40, '-', '_-.')}-{fingerprint[:6]}", set(taken)
    number, id = 1, base
    while id in known:
        number += 1
        id = f"{base}-{number}"
    return id
