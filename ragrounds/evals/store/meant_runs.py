"""Which run a name means where it fits several: of the runs on the same questions a complete one, the newest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.records import Run


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


def meant_runs(fitting: Sequence[Sequence[Run]], made: Mapping[str, int]) -> list[Run]:
    """The run that each of some names means that are given together.

    Where all names have runs on one set of questions, those are meant: of several sets the one on which most of the
    names have a complete run, else the newest. Of a name's runs a complete one is meant, else any; of several the
    newest.

    Args:
        fitting: for each name the runs that it fits, oldest first.
        made: run id → how many of its attempts have been made.
    """
    shared = set.intersection(*({run.questions for run in found} for found in fitting)) if fitting else set()
    sets = dict.fromkeys(run.questions for run in reversed(fitting[0]) if run.questions in shared) if fitting else ()
    picks = [[_of_set(found, made, questions) for found in fitting] for questions in sets]
    if not picks:
        return [_best(found, made) for found in fitting]
    return max(picks, key=lambda runs: (sum(is_complete(run, made) for run in runs), max(run.created for run in runs)))


def is_complete(run: Run, made: Mapping[str, int]) -> bool:
    """Whether every attempt of a run has been made."""
    return made.get(run.id, 0) >= run.count * run.epochs


def meant_line(reference: str, run: Run, fitting: Sequence[Run], made: Mapping[str, int]) -> str:
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


def _of_set(found: Sequence[Run], made: Mapping[str, int], questions: str) -> Run:
    return _best([run for run in found if run.questions == questions], made)


def _best(found: Sequence[Run], made: Mapping[str, int]) -> Run:
    return ([run for run in found if is_complete(run, made)] or list(found))[-1]
