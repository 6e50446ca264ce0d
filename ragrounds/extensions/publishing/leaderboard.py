"""Many runs as rankings: each of runs that answered the same questions as often, and have the same headline scorer.

Runs of other questions, another selection, other epochs or another headline are never in one ranking. A place is a
range, from the corrected tests: a run that is behind two others by them, and that no test separates from three more,
has the places 3 to 6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import Question, Run
from ragrounds.base.text import file_name
from ragrounds.evals.benchmarks.cards import TextLicence, text_licence
from ragrounds.evals.compare.abstract import Abstract, abstract, selection_words
from ragrounds.evals.compare.comparison import Comparison, ScorerTable, compare
from ragrounds.evals.compare.findings import ScorerFinding, conclusions, untested
from ragrounds.evals.compare.stopped_runs import early_stops
from ragrounds.evals.scorers import described, headline_of
from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store


class Place(Struct, frozen=True):
    """The places that the tests leave open to a run, from 1."""

    first: int
    last: int


class Ranking(Struct, frozen=True, kw_only=True):
    """Runs that can be compared."""

    key: str
    """Short, made of the benchmark's name and the hash of its questions: a file name."""
    benchmark: str
    questions: str
    """Content hash of the questions and golds."""
    count: int
    epochs: int
    selection: str
    """Which part of the benchmark it is, in words; empty: the whole."""
    claim: str
    """The claim that these runs were followed for, and that ended them; empty: none."""
    runs: tuple[Run, ...]
    """In the order of `comparison`: the best figure of the first headline first."""
    comparison: Comparison
    places: dict[str, dict[str, Place]]
    """Scorer → run id → its places, where tests say any."""
    licences: tuple[TextLicence, ...]
    """Of each dataset of the questions."""
    abstract: Abstract
    """Who answered, what can be concluded, what is missing."""

    @property
    def attempts(self) -> int:
        """Attempts of all runs that were made."""
        return sum(row.made for row in self.comparison.rows)


class LeftOutRuns(Struct, frozen=True):
    """Runs that are in no ranking."""

    runs: tuple[str, ...]
    why: str


class Rankings(Struct, frozen=True):
    """All rankings of some runs, and the runs that are in none."""

    rankings: tuple[Ranking, ...]
    left_out: tuple[LeftOutRuns, ...]


class _Key(Struct, frozen=True):
    """Runs of equal keys are in one ranking."""

    questions: str
    epochs: int
    headlines: tuple[str, ...]
    claim: str


def rank(
    store: Store,
    runs: Sequence[Run],
    *,
    seed: int = 0,
    names: Mapping[str, str] | None = None,
    report: Callable[[str, int], None] = lambda what, done: None,
) -> Rankings:
    """Put runs into rankings, those of one benchmark beside each other.

    Args:
        store: where they are.
        runs: each once.
        seed: of every bootstrap.
        names: run id → what it is called; ``None``: as the store keeps it.
        report: is told how many runs are compared.
    """
    questions = {run.questions: store.questions(run)[0] for run in {run.questions: run for run in runs}.values()}
    grouped: dict[_Key, list[Run]] = {}
    unmade: list[str] = []
    for run in runs:
        if not _begun(store, run):
            unmade.append(run.id)
            continue
        stop = early_stops(store, [run]).get(run.id)
        lines = headline_of(questions[run.questions], _scorers(store, run))
        key = _Key(run.questions, run.epochs, tuple(one.scorer for one in lines), stop.state.claim if stop else "")
        grouped.setdefault(key, []).append(run)
    left = [LeftOutRuns(tuple(unmade), "no attempt was made yet")] if unmade else []
    made, compared = list[Ranking](), 0
    keys = _keys(grouped)
    for key, members in sorted(grouped.items(), key=lambda one: (one[1][0].benchmark, -one[1][0].count, keys[one[0]])):
        try:
            comparison = _compared(store, members, seed, names)
        except UserError as error:
            left.append(LeftOutRuns(tuple(run.id for run in members), str(error)))
            continue
        made.append(_ranking(store, keys[key], key, members, comparison, questions[key.questions]))
        compared += len(members)
        report("runs compared", compared)
    return Rankings(tuple(made), tuple(left))


def _compared(store: Store, runs: Sequence[Run], seed: int, names: Mapping[str, str] | None) -> Comparison:
    """The comparison of some runs, the best one first."""
    made = compare(store, runs, seed=seed, names=names, shared_scorers=True)
    order = {run: place for place, run in enumerate(_ordered(made))}
    tables = tuple(
        replace(table, lines=tuple(sorted(table.lines, key=lambda line: order[line.run]))) for table in made.tables
    )
    return replace(made, rows=tuple(sorted(made.rows, key=lambda row: order[row.run])), tables=tables)


def _ordered(comparison: Comparison) -> list[str]:
    """The runs, the best figure under the first headline first; those without a figure last."""
    ids = [row.run for row in comparison.rows]
    shown = comparison.shown()
    if not shown:
        return ids
    table = shown[0][0]
    sign = -1 if table.direction == "higher" else 1
    values = {line.run: line.overall.value for line in table.lines}
    return sorted(ids, key=lambda run: (values[run] is None, sign * (values[run] or 0.0), ids.index(run)))


def _ranking(
    store: Store,
    name: str,
    key: _Key,
    runs: Sequence[Run],
    comparison: Comparison,
    questions: Sequence[Question],
) -> Ranking:
    by_id = {run.id: run for run in runs}
    ordered = tuple(by_id[row.run] for row in comparison.rows)
    told = abstract(store, ordered, comparison)
    findings = {found.scorer: found for found in told.findings}
    datasets = dict.fromkeys(question.benchmark for question in questions)
    return Ranking(
        key=name,
        benchmark=runs[0].benchmark,
        questions=key.questions,
        count=runs[0].count,
        epochs=key.epochs,
        selection=selection_words(runs[0]),
        claim=key.claim,
        runs=ordered,
        comparison=comparison,
        places={
            table.scorer: found
            for table, _ in comparison.shown()
            if table.scorer in findings and (found := places(table, findings[table.scorer]))
        },
        licences=tuple(text_licence(dataset) for dataset in datasets),
        abstract=told,
    )


def places(table: ScorerTable, found: ScorerFinding) -> dict[str, Place]:
    """The places that the corrected tests of a table leave open to each run; none where no test says anything. What
    attempts that are still open could turn round counts for nothing."""
    if not table.pairs or untested(table):
        return {}
    tested = [line.run for line in table.lines]
    held = [one for one in conclusions(table) if one not in found.open]
    ahead = {run: sum(one.worse == run for one in held) for run in tested}
    behind = {run: sum(one.better == run for one in held) for run in tested}
    return {run: Place(1 + ahead[run], len(table.lines) - behind[run]) for run in tested}


def _keys(grouped: Mapping[_Key, Sequence[Run]]) -> dict[_Key, str]:
    """A short name for each ranking, made of what does not change when another run joins it."""
    return {
        key: f"{file_name(runs[0].benchmark, 40, '-', '-')}-{key.questions[:8]}-{_digest(key)}".lower()
        for key, runs in grouped.items()
    }


def _digest(key: _Key) -> str:
    return hashlib.sha256(msgspec.json.encode(key)).hexdigest()[:6]


def _begun(store: Store, run: Run) -> bool:
    return any(status != "not_run" for status in store.done(run).values())


def _scorers(store: Store, run: Run) -> list[str]:
    """The scorers under which a run has a figure: a computed one without a single value has nothing to show."""
    table = schema.scores
    counted = sa.select(table.c.scorer, sa.func.count(table.c.value)).where(table.c.run == store.number(run))
    with store.engine.connect() as connection:
        found = connection.execute(counted.group_by(table.c.scorer)).all()
    return [name for name, values in found if values or described(name).needs_judge]
