"""Setting runs against each other: accuracy with intervals, outcomes, tokens, two ledgers, paired tests.

A pure function of the store. Each protocol has its own tables; two protocols are never averaged or compared.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.figures import Figure, Paired, figure, paired, protocol_values
from ragrounds.evals.statistics import holm
from ragrounds.evals.store.store import Store
from ragrounds.evals.tally import outcome
from ragrounds.records import Attempt, Question, Run, Usage

SHOWN = ("mirage", "strict", "facts")
"""Protocols that tables show where none is named; the others stand in ``--json`` or are named with ``--protocol``."""


class Row(Struct, frozen=True, kw_only=True):
    """What a run came to, apart from its scores."""

    run: str
    agent: str
    origin: str
    models: dict[str, str]
    questions: int
    epochs: int
    statuses: dict[str, int]
    """Attempts by status; `not_run` holds those that are still missing."""
    usage: Usage | None
    """Tokens in all; ``None``: some call's usage is unknown."""
    spent: float | None
    """Dollars really spent."""
    cold: float | None
    """Dollars from cold: as if nothing had been in the journal."""
    seconds: float | None
    """Mean wall-clock seconds of an attempt."""
    calls: int


class Line(Struct, frozen=True, kw_only=True):
    """A run's figures under one protocol."""

    run: str
    agent: str
    datasets: dict[str, Figure]
    overall: Figure
    """Unweighted mean over datasets (MIRAGE Section 3.1); of one dataset: that dataset's figure."""
    readings: dict[str, int]
    """Attempts by outcome: the protocol's reading, or the status of an attempt that did not end well."""


class Pair(Struct, frozen=True, kw_only=True):
    """Two runs on the same questions under one protocol: `first` minus `second`."""

    first: str
    second: str
    tests: Paired
    p_holm: float | None
    """McNemar's p after Holm's correction over all pairs of this protocol."""


class ProtocolTable(Struct, frozen=True, kw_only=True):
    """Everything under one protocol."""

    protocol: str
    lines: tuple[Line, ...]
    pairs: tuple[Pair, ...]


class Comparison(Struct, frozen=True, kw_only=True):
    """Runs set against each other."""

    benchmark: str
    questions: int
    rows: tuple[Row, ...]
    tables: tuple[ProtocolTable, ...]
    notes: tuple[str, ...] = ()


def compare(
    store: Store, runs: Sequence[Run], *, protocols: Sequence[str] = (), common: bool = False, seed: int = 0
) -> Comparison:
    """Compare runs, under the protocols named (by default all that they were scored by).

    Raises:
        UserError: no runs, or runs on different questions and `common` is not set; a protocol that nothing was scored
            by.
    """
    if not runs:
        raise UserError("No run was named.")
    questions, notes = _questions(store, runs, common)
    outlines = {run.id: store.outlines(run) for run in runs}
    ids = {question.id for question in questions}
    rows = tuple(_row(run, [a for a in outlines[run.id] if a.question_id in ids], len(questions)) for run in runs)
    notes += [
        f"{row.run} has {row.statuses['not_run']:,} attempts still to be made; they count as not correct."
        for row in rows
        if row.statuses.get("not_run")
    ]
    return Comparison(
        benchmark=runs[0].benchmark,
        questions=len(questions),
        rows=rows,
        tables=tuple(
            _table(store, protocol, runs, questions, outlines, seed) for protocol in _protocols(store, runs, protocols)
        ),
        notes=tuple(notes),
    )


def _questions(store: Store, runs: Sequence[Run], common: bool) -> tuple[list[Question], list[str]]:
    sets = {run.questions: run for run in runs}
    first, _ = store.questions(runs[0])
    if len(sets) == 1:
        return first, []
    if not common:
        told = "; ".join(f"{run.id}: {run.count:,} questions of {run.benchmark}" for run in runs)
        raise UserError(
            f"These runs answer different questions ({told}). Compare runs on the same questions, or set --common to "
            "compare on those that all of them have."
        )
    shared = set.intersection(*({question.id for question in store.questions(run)[0]} for run in sets.values()))
    kept = [question for question in first if question.id in shared]
    if not kept:
        raise UserError("These runs have no question in common.")
    return kept, [f"Compared on the {len(kept):,} questions that all runs have."]


def _protocols(store: Store, runs: Sequence[Run], wanted: Sequence[str]) -> list[str]:
    present = list(dict.fromkeys(score.protocol for score in store.scores(runs[0])))
    order = [name for name in SHOWN if name in present] + sorted(name for name in present if name not in SHOWN)
    if not wanted:
        return order
    for name in wanted:
        if name not in present:
            raise UserError(
                f"{runs[0].id} has no scores under {name!r}, only {', '.join(order) or 'none'}. "
                f"`ragrounds score {runs[0].id} --protocol {name}` makes them."
            )
    return list(wanted)


def _row(run: Run, outlines: Sequence[Attempt], count: int) -> Row:
    statuses = Counter(attempt.status for attempt in outlines)
    missing = count * run.epochs - len(outlines)
    if missing:
        statuses["not_run"] += missing
    usages = [attempt.usage for attempt in outlines if attempt.status != "not_run"]
    made = [attempt for attempt in outlines if attempt.status != "not_run"]
    return Row(
        run=run.id,
        agent=run.agent,
        origin=run.origin,
        models=dict(run.identity.get("models", {})),
        questions=count,
        epochs=run.epochs,
        statuses=dict(statuses),
        usage=None if None in usages else sum((usage for usage in usages if usage is not None), Usage()),
        spent=_sum([attempt.spent for attempt in made]),
        cold=_sum([attempt.cold for attempt in made]),
        seconds=sum(attempt.seconds for attempt in made) / len(made) if made and run.origin == "replayed" else None,
        calls=sum(attempt.calls for attempt in made),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)


def _table(
    store: Store,
    protocol: str,
    runs: Sequence[Run],
    questions: Sequence[Question],
    outlines: Mapping[str, Sequence[Attempt]],
    seed: int,
) -> ProtocolTable:
    scores = {run.id: store.scores(run, protocol) for run in runs}
    scored = {score.question_id for run in runs for score in scores[run.id]}
    asked = [question for question in questions if question.id in scored]
    values = {run.id: protocol_values(asked, scores[run.id], run.epochs) for run in runs}
    lines = []
    for run in runs:
        status = {(attempt.question_id, attempt.epoch): attempt.status for attempt in outlines[run.id]}
        read = {(score.question_id, score.epoch): score.reading for score in scores[run.id]}
        readings = Counter(
            outcome(status.get(key, "not_run"), read.get(key, "none"))
            for key in itertools.product((question.id for question in asked), range(run.epochs))
        )
        open_ = _open(asked, status, run.epochs)
        datasets = {
            name: figure([q for q in asked if q.benchmark == name], values[run.id], open_, seed)
            for name in dict.fromkeys(question.benchmark for question in asked)
        }
        overall = figure(asked, values[run.id], open_, seed)
        lines.append(Line(run=run.id, agent=run.agent, datasets=datasets, overall=overall, readings=dict(readings)))
    tests = [
        (first, second, paired(asked, values[first.id], values[second.id], seed))
        for first, second in itertools.combinations(runs, 2)
    ]
    known = [test.p_mcnemar for _, _, test in tests if test.p_mcnemar is not None]
    corrected = iter(holm(known)) if known else iter(())
    pairs = tuple(
        Pair(
            first=first.id,
            second=second.id,
            tests=test,
            p_holm=float(next(corrected)) if test.p_mcnemar is not None else None,
        )
        for first, second, test in tests
    )
    return ProtocolTable(protocol=protocol, lines=tuple(lines), pairs=pairs)


def _open(questions: Sequence[Question], status: Mapping[tuple[str, int], str], epochs: int) -> dict[str, float]:
    """Question id → share of its attempts whose result is open: failed, capped or not run."""
    unsettled = ("failed", "capped", "not_run")
    return {
        question.id: sum(status.get((question.id, epoch), "not_run") in unsettled for epoch in range(epochs)) / epochs
        for question in questions
    }
