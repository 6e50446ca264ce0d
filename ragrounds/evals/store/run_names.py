"""Names of runs: their ids, the beginnings of these, their agents' texts, and names that users give them.

A name that matches several runs selects one of them in the setting of the last command, and a message says which. A
user's name is stored in the table `meta` and is not part of a run: neither its fingerprint nor the journal depends on
it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from shlex import quote

import sqlalchemy as sa

from ragrounds.agents.spellings import runs_of_agent
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.plugins import warn_once
from ragrounds.base.records import Run
from ragrounds.base.specs import without_addresses
from ragrounds.base.text import file_name, listed
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import fetch_rows, insert_new, upsert
from ragrounds.evals.store.row_sums import meta_value, summed_meta
from ragrounds.evals.store.schema import LAST_COMMAND, RUN_NAME, RUN_SCORER, meta

_NAMED = 6
"""Number of runs that a message names."""
LONGEST_NAME = 120
"""Largest number of characters of a name."""
_NAMES = sa.select(meta.c.key, meta.c.value).where(meta.c.key.startswith(RUN_NAME))


def one_name(text: str) -> str:
    """Return a name as it is stored and shown: in one line, of at most `LONGEST_NAME` characters."""
    return " ".join(text.split())[:LONGEST_NAME]


def keep_names(engine: sa.Engine, names: Mapping[str, str]) -> None:
    """Store users' names of runs.

    Args:
        engine: of the store.
        names: run id → name; an empty one removes the name.
    """
    rows = [summed_meta(f"{RUN_NAME}{run}", name) for run, text in names.items() if (name := one_name(text))]
    removed_keys = [f"{RUN_NAME}{run}" for run, text in names.items() if not one_name(text)]
    with engine.begin() as connection:
        if rows:
            connection.execute(upsert(engine, meta), rows)
        if removed_keys:
            connection.execute(sa.delete(meta).where(meta.c.key.in_(removed_keys)))


def kept_names(engine: sa.Engine) -> dict[str, str]:
    """Map run ids to names, for the runs of a store that have one. A damaged name is left out, with a warning."""
    rows = fetch_rows(engine, _NAMES)
    names = {str(key).removeprefix(RUN_NAME): meta_value(str(key), str(value)) for key, value in rows}
    for run in (run for run, name in names.items() if name is None):
        warn_once(f"The stored name of {run} does not match its checksum and is not used.")
    return {run: one_name(name) for run, name in names.items() if name}


def copy_names(source: sa.Engine, target: sa.Engine, runs: Container[str]) -> None:
    """Copy the names of these runs and of their scorers into another store; a run that has a name there keeps it."""
    rows = [summed_meta(f"{RUN_NAME}{run}", name) for run, name in kept_names(source).items() if run in runs]
    keys = fetch_rows(source, sa.select(meta.c.key).where(meta.c.key.startswith(RUN_SCORER)))
    rows += [summed_meta(key, "") for (key,) in keys if key.removeprefix(RUN_SCORER).partition(" ")[0] in runs]
    if rows:
        with target.begin() as connection:
            connection.execute(insert_new(target, meta), rows)


def made_attempts(engine: sa.Engine, runs: Sequence[Run]) -> dict[str, int]:
    """Map run ids to the number of attempts that have been made, whatever their result."""
    table, runs_table = schema.attempts, schema.runs
    counted = (
        sa.select(runs_table.c.id, sa.func.count())
        .select_from(runs_table.join(table, table.c.run == runs_table.c.number))
        .where(runs_table.c.id.in_([run.id for run in runs]), table.c.status != "not_run")
        .group_by(runs_table.c.id)
    )
    return dict(map(tuple, fetch_rows(engine, counted)))


def is_complete(run: Run, attempts_made: Mapping[str, int]) -> bool:
    """Return True if every attempt of a run has been made."""
    return attempts_made.get(run.id, 0) >= run.count * run.epochs


def fitting_runs(
    reference: str, runs: Sequence[Run], names: Mapping[str, str] | None = None, *, bare: bool = False
) -> list[Run]:
    """Return the runs that a text may mean, in their order; empty if nothing matches.

    The text is compared in turn with ids, agents, beginnings of ids, and names. The first kind that matches is used.

    Args:
        reference: the text that was typed.
        runs: the candidates.
        names: run id → the user's name.
        bare: True if an agent's name without its parameters matches.
    """
    return (
        [run for run in runs if run.id == reference]
        or runs_of_agent(reference, runs)
        or [run for run in runs if bare and run.agent.partition("[")[0] == reference]
        or [run for run in runs if run.id.startswith(reference)]
        or [run for run in runs if (names or {}).get(run.id) == reference]
    )


def find_runs(
    references: Sequence[str], runs: Sequence[Run], location: str, names: Mapping[str, str] | None = None
) -> list[list[Run]]:
    """Return, for each of some references, the runs of a store that it may mean, oldest first.

    Args:
        references: ids, beginnings of ids, agents' texts, or names.
        runs: all of the store.
        location: the location of the store, for the error.
        names: run id → the user's name.

    Raises:
        UserError: one means no run, or is the beginning of ids of several agents' runs.
    """
    matches = [fitting_runs(reference, runs, names) for reference in references]
    for reference, fitting in zip(references, matches, strict=True):
        if not fitting:
            near = nearest(reference, [name for run in runs for name in (run.id, run.agent)])
            if not near and reference.endswith((".csv", ".json", ".md", ".tex")):
                near = f" To write a table to a file, redirect what is printed: `> {quote(reference)}`."
            raise UserError(f"There is no run {reference!r} in {location}.{near} See `ragrounds runs ls`.")
        agents = list(dict.fromkeys(quote(run.agent) for run in reversed(fitting)))
        if len(agents) > 1 and all(run.id.startswith(reference) for run in fitting):
            more = f" (of {len(agents)}: `ragrounds runs ls` has all)" if len(agents) > _NAMED else ""
            raise UserError(
                f"{reference!r} matches several runs. Give one of these names: {', '.join(agents[:_NAMED])}{more}."
            )
    return matches


def run_among(reference: str, runs: Sequence[Run], where: str, names: Mapping[str, str] | None = None) -> Run:
    """Return the one run that a text means, among runs that are shown together; `names`: run id → the user's name.

    Raises:
        UserError: none, or several; `where` is the option or argument with the text.
    """
    unique = list({run.id: run for run in runs}.values())
    fitting = fitting_runs(reference, unique, names, bare=True)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        ids = ", ".join(run.id for run in fitting)
        raise UserError(f"{where} {reference!r} matches several of the runs: {ids}. Give an id.")
    user_names = [name for run in unique if (name := (names or {}).get(run.id))]
    near = nearest(reference, [*user_names, *(name for run in unique for name in (run.agent, run.id))])
    listed = ", ".join((names or {}).get(run.id) or run.id for run in unique[:_NAMED])
    raise UserError(f"{where} {reference!r} matches none of the runs shown ({listed}).{near}")


def keep_last_command(engine: sa.Engine, runs: Sequence[Run]) -> None:
    """Store the runs of a command, new or resumed: an agent's name then means a run in their setting."""
    with engine.begin() as connection:
        connection.execute(upsert(engine, meta), summed_meta(LAST_COMMAND, "\n".join(run.id for run in runs)))


def last_command(engine: sa.Engine) -> frozenset[str]:
    """Return the ids of the runs of the last command that made or resumed runs; empty if none did."""
    values = fetch_rows(engine, sa.select(meta.c.value).where(meta.c.key == LAST_COMMAND))
    return frozenset(run for (value,) in values for run in (meta_value(LAST_COMMAND, value) or "").split("\n"))


def _models(run: Run) -> dict[str, str]:
    models = run.identity.get("models")
    return dict(models) if isinstance(models, Mapping) else {}


_SETTING: Mapping[str, Callable[[Run], str]] = {
    "questions": lambda run: run.questions,
    "model": lambda run: ", ".join(without_addresses(model) for model in dict.fromkeys(_models(run).values())),
    "corpus": lambda run: str(run.identity.get("corpus") or ""),
}
"""What an agent's runs may differ in although its name is the same."""


def _differing(runs: Iterable[Run]) -> list[str]:
    return [name for name, value in _SETTING.items() if len({value(run) for run in runs}) > 1]


def _setting_words(run: Run, names: Iterable[str]) -> str:
    words = [f"{name} {_SETTING[name](run) or '-'}" for name in names if name != "questions"]
    return ", ".join([run.benchmark, *words])


def _same_setting(run: Run, other: Run) -> bool:
    """Return True if two runs have the same questions, and the same corpus and model of each role that both have."""
    models, others = _models(run), _models(other)
    corpora = {_SETTING["corpus"](run), _SETTING["corpus"](other)} - {""}
    return (
        run.questions == other.questions
        and len(corpora) < 2
        and all(models[role] == others[role] for role in models.keys() & others)
    )


def choose_runs(
    references: Sequence[str],
    fitting: Sequence[Sequence[Run]],
    last: Sequence[Run],
    attempts_made: Mapping[str, int],
    *,
    newest: bool = False,
) -> list[Run]:
    """Return the run that each of some names means, if they are given together.

    A run without attempts is meant only if no other is. Names that are given together mean runs on the same questions,
    if there are such. Of a name's runs those count that have the questions, models and corpus of a run that another of
    the names means alone, and else of a run of the last command. Of these it is the newest complete one, and else the
    newest; a run of the last command is newer than all others.

    Args:
        references: the names.
        fitting: for each name the runs that match it, oldest first.
        last: the runs of the last command.
        attempts_made: run id → number of its attempts that have been made.
        newest: True if a complete run is not preferred.

    Raises:
        UserError: the runs that a name may mean differ in questions, models or corpus.
    """
    candidates = [[run for run in matches if attempts_made.get(run.id)] or list(matches) for matches in fitting]
    contexts = [[matches[0] for matches in candidates if len(matches) == 1], last]
    if shared := set.intersection(*({run.questions for run in matches} for matches in candidates)):
        for context in contexts:
            shared = shared & {run.questions for run in context} or shared
        candidates = [[run for run in matches if run.questions in shared] for matches in candidates]
    for context in contexts:
        candidates = [
            [run for run in matches if any(_same_setting(run, other) for other in context)] or matches
            for matches in candidates
        ]
    last_ids = {run.id for run in last}
    picks: list[Run] = []
    for reference, matches in zip(references, candidates, strict=True):
        pick = max(
            reversed(matches), key=lambda run: (not newest and is_complete(run, attempts_made), run.id in last_ids)
        )
        if others := [run for run in matches if not _same_setting(run, pick)]:
            names = _differing([pick, *others])
            runs_with_settings = [
                f"{run.id} ({_setting_words(run, names)}, {run.count:,} questions)" for run in (pick, *others[::-1])
            ]
            raise UserError(
                f"{reference!r} has runs that differ in {' and '.join(names)}: "
                f"{listed(runs_with_settings, _NAMED, '; ')}. Give an id."
            )
        picks.append(pick)
    return picks


def chosen_line(reference: str, run: Run, fitting: Sequence[Run], attempts_made: Mapping[str, int]) -> str:
    """Describe the run that a name was taken for, and what its other runs differ in, in one line."""
    n_attempts, done = run.count * run.epochs, attempts_made.get(run.id, 0)
    done_words = f"{n_attempts:,}" if done == n_attempts else f"{done:,}/{n_attempts:,}"
    names = _differing(fitting)
    same_setting = [other for other in fitting if _same_setting(run, other)]
    complete = is_complete(run, attempts_made) and not all(is_complete(other, attempts_made) for other in same_setting)
    shared = " and ".join("these questions" if name == "questions" else f"this {name}" for name in names)
    n_runs, choice = f"of {len(fitting):,} runs", f"the newest{' complete one' * complete}"
    which = f"{n_runs} {choice} with {shared}" if shared else f"{choice} {n_runs}"
    return f"{reference}: {run.id} ({_setting_words(run, names)}, {done_words} done), {which}"


def new_run_id(agent: str, fingerprint: str, taken: Iterable[str]) -> str:
    """Return a short readable id: the agent's name and the beginning of the fingerprint, with a number if it is taken.

    It is a valid file name on every system, whatever the agent's text.
    """
    base, existing = f"{file_name(without_addresses(agent), 40, '-', '_-.')}-{fingerprint[:6]}", set(taken)
    number, id = 1, base
    while id in existing:
        number += 1
        id = f"{base}-{number}"
    return id
