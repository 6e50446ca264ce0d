"""Facts of an attempt: values that a filter can test without reading the attempt's steps (``hops>3 and gold not
seen``).

They are derived from the attempt's events and from the requests and responses of its calls, when a filter, an order, a
list or an analysis first needs them. No answer waits for them. They are never copied between stores. Facts hold the
time of their attempt: if the attempt has been repeated since, they count as missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import sqlalchemy as sa

from ragrounds.base.chunks import chunks
from ragrounds.base.records import Attempt, Entered, Gold, Noted, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.care.garbage import Progress
from ragrounds.evals.store.database import autocommit, upsert, writing
from ragrounds.evals.store.row_sums import summed
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hops import Hop, gold_names, hops_of, searches_unknown
from ragrounds.evals.trace.recorded_calls import AttemptReader, stored_questions
from ragrounds.evals.trace.traces import TracedCall

_A, _F = schema.attempts, schema.facts
_BATCH = 100
"""Number of attempts whose facts are written together."""


def facts_row(
    attempt: Attempt, traced: Sequence[TracedCall], gold: Gold, number: int, hops: Sequence[Hop] | None = None
) -> Row:
    """Return the table `facts` and the row of an attempt's facts.

    Args:
        attempt: with its events.
        traced: its calls in their order.
        gold: of the question.
        number: the run's in this store.
        hops: as :func:`ragrounds.evals.trace.hops.hops_of` returns them; ``None``: they are derived here.
    """
    hops = hops_of(traced, gold, only_gold=True) if hops is None else hops
    golden = set(gold.documents)
    names, seen = gold_names(hops), gold_names(hops, "seen", "cut")
    # If prompts are not recorded, their content is not known.
    recorded = attempt.replayable and (attempt.status != "completed" or any(call.asked for call in traced))
    n_seen = len(golden & seen)
    searches_known = bool(hops) or not searches_unknown(attempt, traced)
    recorded = recorded and searches_known and not golden & gold_names(hops, "not known") - seen
    note_kinds = sorted({event.what for event in attempt.events if isinstance(event, Noted)})
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
        "gold_found": len(golden & names) if golden and searches_known else None,
        "gold_seen": n_seen if golden and (recorded or n_seen == len(golden)) else None,
        "gold_cut": n_seen - len(golden & gold_names(hops, "seen")) if golden and recorded else None,
        "gold_rank": min((rank for hop in hops for rank in hop.gold_ranks), default=None),
        "gold_hop": next((hop.number for hop in hops if hop.gold_ranks), None),
        "notes": f" {' '.join(note_kinds)} " if note_kinds else "",
    }
    return _F, summed(_F, row)


def lacking_facts(connection: sa.Connection, numbers: Sequence[int]) -> list[tuple[int, str, int]]:
    """Return the attempts of some runs (by their numbers) that have no facts: number, question id, epoch."""
    key = ("run", "question_id", "epoch")
    has_current_facts = sa.exists().where(*(_F.c[name] == _A.c[name] for name in (*key, "at")))
    lacking = sa.select(*(_A.c[name] for name in key)).where(_A.c.run.in_(list(numbers)), ~has_current_facts)
    return [(row[0], row[1], row[2]) for row in connection.execute(lacking)]


def make_facts(
    store: Store,
    runs: Sequence[Run],
    progress: Progress = lambda step, rows: None,
    among: Collection[tuple[str, str, int]] | None = None,
) -> None:
    """Derive and store the facts that attempts of these runs lack.

    It may run in any thread, during a run. If it is interrupted, the next call continues. Attempts that cannot be read
    stay without facts.

    Args:
        store: holds the runs.
        runs: any number.
        progress: called with the number of attempts that are done.
        among: run id, question id and epoch of the requested attempts; ``None``: all.

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
    """Yield the rows of facts that attempts of these runs lack, in batches, without storing them.

    Facts of attempts in `among` are derived again even if they exist, because stored ones may be damaged.
    """
    by_number = {store.number(run): run for run in runs}
    with autocommit(store.engine) as reading:
        lacking = lacking_facts(reading, list(by_number)) if among is None else []
        for number, run in by_number.items():
            attempt_keys = [(question_id, epoch) for run_number, question_id, epoch in lacking if run_number == number]
            attempt_keys += [(question_id, epoch) for run_id, question_id, epoch in among or () if run_id == run.id]
            questions_by_id = stored_questions(reading, run, {question_id for question_id, _ in attempt_keys})
            reader = AttemptReader()
            for batch in chunks(attempt_keys, _BATCH):
                read = reader.read(reading, run, number, batch).values()
                yield [
                    facts_row(attempt, traced, questions_by_id[attempt.question_id].gold, number)[1]
                    for attempt, traced in read
                ]
