"""Facts of an attempt: what can be asked of it without reading its steps (``hops>3 and gold not seen``).

They are derived from its events and from what its calls asked and answered, when a filter, an order, a list or an
analysis first asks for them: no answer waits for them. They are never copied between stores. Those of an attempt
that was made again meanwhile lack as if there were none: they hold when theirs was made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import sqlalchemy as sa

from ragrounds.base.records import Attempt, Entered, Gold, Noted, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.care.garbage import Progress
from ragrounds.evals.store.database import autocommit, chunks, upsert, writing
from ragrounds.evals.store.row_sums import summed
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hops import Hop, hops_of, searches_unknown
from ragrounds.evals.trace.recorded_calls import AttemptReader, stored_questions
from ragrounds.evals.trace.traces import TracedCall

_A, _F = schema.attempts, schema.facts
_BATCH = 100
"""Attempts whose facts are written together."""


def facts_row(
    attempt: Attempt, traced: Sequence[TracedCall], gold: Gold, number: int, hops: Sequence[Hop] | None = None
) -> Row:
    """The row of an attempt's facts.

    Args:
        attempt: with its events.
        traced: its calls in their order.
        gold: of the question.
        number: the run's in this store.
        hops: as :func:`ragrounds.evals.trace.hops.hops_of` gives them; ``None``: they are derived here.
    """
    hops = hops_of(traced, gold, only_gold=True) if hops is None else hops
    golden = set(gold.documents)
    found = [one for hop in hops for one in hop.found if one.gold]
    ranks = [one.rank for one in found]
    names = {name for one in found for name in (one.passage.document, one.passage.id)}
    seen = {name for one in found if one.fate in ("seen", "cut") for name in (one.passage.document, one.passage.id)}
    # Where prompts are not recorded, what stood in them is not known.
    recorded = attempt.replayable and (attempt.status != "completed" or any(call.asked for call in traced))
    shown = len(golden & seen)
    unclear = {name for one in found if one.fate == "not known" for name in (one.passage.document, one.passage.id)}
    heard = bool(hops) or not searches_unknown(attempt, traced)
    recorded = recorded and heard and not golden & unclear - seen
    whole = {name for one in found if one.fate == "seen" for name in (one.passage.document, one.passage.id)}
    kinds = sorted({event.what for event in attempt.events if isinstance(event, Noted)})
    failed = [call for call in traced if call.call.error]
    row: dict[str, object] = {
        "run": number,
        "question_id": attempt.question_id,
        "epoch": attempt.epoch,
        "at": attempt.at,
        "steps": sum(isinstance(event, Entered) for event in attempt.events),
        "hops": sum(not hop.error for hop in hops),
        "repeated": sum(hop.repeats is not None for hop in hops),
        "failed_calls": len(failed),
        "failed_searches": sum(bool(hop.error) for hop in hops),
        "faults": sum(len(call.call.faults) for call in traced),
        "gold": len(golden) or None,
        "gold_found": len(golden & names) if golden and heard else None,
        "gold_seen": shown if golden and (recorded or shown == len(golden)) else None,
        "gold_cut": len(golden & seen) - len(golden & whole) if golden and recorded else None,
        "gold_rank": min(ranks, default=None),
        "gold_hop": next((hop.number for hop in hops if hop.gold_ranks), None),
        "notes": f" {' '.join(kinds)} " if kinds else "",
    }
    return _F, summed(_F, row)


def lacking_facts(connection: sa.Connection, numbers: Sequence[int]) -> list[tuple[int, str, int]]:
    """The attempts of some runs (by their numbers) that have no facts: number, question id, epoch."""
    key = ("run", "question_id", "epoch")
    known = sa.exists().where(*(_F.c[name] == _A.c[name] for name in (*key, "at")))
    wanted = sa.select(*(_A.c[name] for name in key)).where(_A.c.run.in_(list(numbers)), ~known)
    return [(row[0], row[1], row[2]) for row in connection.execute(wanted)]


def make_facts(
    store: Store,
    runs: Sequence[Run],
    progress: Progress = lambda step, rows: None,
    among: Collection[tuple[str, str, int]] | None = None,
) -> None:
    """Make the facts that attempts of these runs lack. It may run in any thread, beside a run that is being made; where
    it is broken off, the next call goes on. Attempts that cannot be read stay without.

    Args:
        store: holds the runs.
        runs: any number.
        progress: is told how many are made.
        among: run id, question id and epoch of those that are wanted; ``None``: all.

    Raises:
        StopRun: the store cannot be written.
    """
    done = 0
    for rows in derived_facts(store, runs, among):
        with writing(store.engine) as connection:
            if rows:
                connection.execute(upsert(store.engine, _F), rows)
        done += len(rows)
        progress("making facts", done)


def derived_facts(
    store: Store, runs: Sequence[Run], among: Collection[tuple[str, str, int]] | None = None
) -> Iterator[list[Mapping[str, object]]]:
    """The rows of facts that attempts of these runs lack, some at a time; as :func:`make_facts`, which keeps them.
    Those of attempts `among` which they are wanted are made anew where there are some, which may be damaged."""
    by_number = {store.number(run): run for run in runs}
    with autocommit(store.engine) as reading:
        lacking = lacking_facts(reading, list(by_number)) if among is None else []
        for number, run in by_number.items():
            places = [(question_id, epoch) for one, question_id, epoch in lacking if one == number]
            places += [(question_id, epoch) for one, question_id, epoch in among or () if one == run.id]
            asked = stored_questions(reading, run, {question_id for question_id, _ in places})
            reader = AttemptReader()
            for batch in chunks(places, _BATCH):
                read = reader.read(reading, run, number, batch).values()
                yield [facts_row(one, traced, asked[one.question_id].gold, number)[1] for one, traced in read]
