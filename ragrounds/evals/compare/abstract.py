"""What is said of a comparison beside its tables, as data. The abstract: who answered what, when, with which models,
what is missing, what can be concluded. Its limitations, as far as its own data tell: size, clusters, what ended
without an answer and the bounds that leaves, answers that could not be read, unknown costs, calls that nobody
recorded. Report, leaderboard and terminal say both in the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.evals.compare.comparability import common_questions
from ragrounds.evals.compare.comparison import Comparison, RunTotals, ScorerTable, kinds_of
from ragrounds.evals.compare.findings import ScorerFinding, finding, is_average
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.store.store import Store
from ragrounds.records import OPEN, Question, Run

FEW = 10
"""Questions of a dataset below which a reader is told so."""
LackKind = Literal["not_run", "failed", "paused", "unjudged", "unscored"]


class AbstractSystem(Struct, frozen=True, kw_only=True):
    """One that answered."""

    run: str
    agent: str
    models: tuple[str, ...]
    """That it asked, each once, without parameters; empty: not known."""
    imported: bool
    began: float
    """Seconds since the epoch."""
    ended: float
    """When its last attempt was made; where that is not known, when it began."""


class Lack(Struct, frozen=True, kw_only=True):
    """What is missing of a run."""

    run: str
    kind: LackKind
    count: int
    of: int
    scorer: str = ""
    """``unjudged``, ``unscored``: by which questions have no score."""


class Abstract(Struct, frozen=True, kw_only=True):
    """What stands before everything else."""

    benchmark: str
    title: str
    """The benchmark's, by its card; empty: it has none."""
    datasets: tuple[str, ...]
    questions: int
    epochs: int
    systems: tuple[AbstractSystem, ...]
    findings: tuple[ScorerFinding, ...]
    """One for each headline that has a figure."""
    lacks: tuple[Lack, ...]

    @property
    def incomplete(self) -> bool:
        """Whether anything is missing that could still be made."""
        return bool(self.lacks)


def abstract(store: Store, runs: Sequence[Run], comparison: Comparison, scorers: Sequence[str] = ()) -> Abstract:
    """The abstract of a comparison.

    Args:
        store: where the runs are.
        runs: those of the comparison.
        comparison: their figures.
        scorers: those that are shown; none: the headlines.
    """
    tables = [table for table, _ in comparison.shown(scorers)]
    card = card_of(comparison.benchmark)
    rows = {row.run: row for row in comparison.rows}
    return Abstract(
        benchmark=comparison.benchmark,
        title=card.title if card else "",
        datasets=tuple(dict.fromkeys(name for table in tables for name in table.lines[0].datasets)),
        questions=comparison.questions,
        epochs=comparison.epochs,
        systems=tuple(_system(store, run, rows[run.id]) for run in runs),
        findings=tuple(found for table in tables if (found := finding(table, comparison.tables)) is not None),
        lacks=tuple(_lacks(comparison, tables)),
    )


def _system(store: Store, run: Run, row: RunTotals) -> AbstractSystem:
    models = [text.partition("[")[0] for text in row.models.values()] or list(row.answered_by)
    if not models and run.identity.get("model"):
        models = [str(run.identity["model"])]
    last = max((attempt.at for attempt in store.summaries(run)), default=0.0)
    return AbstractSystem(
        run=run.id,
        agent=run.agent,
        models=tuple(dict.fromkeys(models)),
        imported=run.origin == "imported",
        began=run.created,
        ended=max(run.created, last),
    )


def _lacks(comparison: Comparison, tables: Sequence[ScorerTable]) -> Iterator[Lack]:
    for row in comparison.rows:
        asked = row.questions * row.epochs
        kinds: tuple[LackKind, ...] = ("not_run", "failed", "paused")
        for kind in kinds:
            if count := row.statuses.get(kind, 0):
                yield Lack(run=row.run, kind=kind, count=count, of=asked)
        for table in tables:
            missing = next((line.overall for line in table.lines if line.run == row.run), None)
            if missing is not None and missing.missing:
                kind = "unjudged" if described(table.scorer).needs_judge else "unscored"
                of = missing.n + missing.missing
                yield Lack(run=row.run, kind=kind, count=missing.missing, of=of, scorer=table.scorer)


LimitationKind = Literal[
    "few", "size", "sample", "clusters", "same text", "once", "open", "unreadable", "missing", "judged", "unpriced",
    "unrecorded", "imported", "retried", "one model", "extractive", "stand-in", "default",
]  # fmt: skip


class Limitation(Struct, frozen=True, kw_only=True):
    """One thing that a reader must keep in mind. What is not of its kind is left at its default."""

    kind: LimitationKind
    scorer: str = ""
    runs: tuple[str, ...] = ()
    """Of which runs."""
    counts: tuple[int, ...] = ()
    """Of each of `runs`; else of the whole."""
    of: int = 0
    low: float | None = None
    """``size``: the smallest minimum detectable effect among the pairs; ``open``: the lowest figure."""
    high: float | None = None
    letter: str = ""
    """``default``: the option that a scorer counts for an answer that it cannot read."""
    rights: tuple[tuple[int, int], ...] = ()
    """``default``: of each of `runs` how many of its right answers are that option, and how many are right."""
    bounds: tuple[tuple[float, float], ...] = ()
    """``open``: of each of `runs` its figure, and what it would be if every open attempt were right."""


def limitations(
    store: Store, runs: Sequence[Run], comparison: Comparison, scorers: Sequence[str] = ()
) -> tuple[Limitation, ...]:
    """What follows from the data of a comparison.

    Args:
        store: where the runs are.
        runs: those of the comparison.
        comparison: their figures.
        scorers: those that are shown; none: the headlines.
    """
    tables = [table for table, _ in comparison.shown(scorers)]
    questions, _ = common_questions(store, runs, True)
    asked = {question.id for question in questions}
    return (
        *(found for table in tables for found in _size(table)),
        *_sample(runs, comparison),
        *_repeated(questions),
        *_once(comparison),
        *(found for table in tables for found in _bounds(table, comparison)),
        *(found for table in tables for found in _counted_as_default(store, runs, table, comparison, asked)),
        *_unread(comparison, scorers),
        *(found for table in tables for found in _missing(table)),
        *_of_rows(comparison),
    )


def _size(table: ScorerTable) -> Iterator[Limitation]:
    lines = [line for line in table.lines if line.overall.value is not None]
    bare = tuple(line.run for line in lines if line.overall.low is None)
    if bare:
        yield Limitation(kind="few", scorer=table.scorer, runs=bare, counts=tuple(_n(table, run) for run in bare))
    effects = [pair.tests.mde for pair in table.pairs if pair.tests.mde is not None]
    if effects:
        asked = max(pair.tests.n for pair in table.pairs)
        yield Limitation(kind="size", scorer=table.scorer, of=asked, low=min(effects), high=max(effects))


def _n(table: ScorerTable, run: str) -> int:
    return next(line.overall.n for line in table.lines if line.run == run)


def _sample(runs: Sequence[Run], comparison: Comparison) -> Iterator[Limitation]:
    chosen = [run.identity.get("selection") for run in runs]
    whole = [found["of"] for found in chosen if isinstance(found, Mapping) and isinstance(found.get("of"), int)]
    if whole and comparison.questions < min(whole):
        yield Limitation(kind="sample", counts=(comparison.questions,), of=min(whole))


def _repeated(questions: Collection[Question]) -> Iterator[Limitation]:
    sizes = Counter(f"{one.benchmark} {one.cluster}" for one in questions if one.cluster)
    groups = [count for count in sizes.values() if count > 1]
    if groups:
        yield Limitation(kind="clusters", counts=(len(groups), sum(groups)), of=len(questions))
    texts = Counter(
        (" ".join(one.text.split()).casefold(), *sorted(one.options.values())) for one in questions if not one.cluster
    )
    same = [count for count in texts.values() if count > 1]
    if same:
        yield Limitation(kind="same text", counts=(len(same), sum(same)), of=len(questions))


def _once(comparison: Comparison) -> Iterator[Limitation]:
    if comparison.epochs == 1:
        yield Limitation(kind="once")
    unreal = kinds_of([(row.run, row.no_model) for row in comparison.rows])
    for kind, runs in unreal.items():
        if kind:
            yield Limitation(kind=kind, runs=() if len(runs) == len(comparison.rows) else runs)
    models = {model.partition("[")[0] for row in comparison.rows for model in row.models.values()}
    if len(comparison.rows) > 1 and len(models) == 1 and not unreal:
        yield Limitation(kind="one model")


def _bounds(table: ScorerTable, comparison: Comparison) -> Iterator[Limitation]:
    """Attempts that are open count as not correct: what their runs' figures could become."""
    found = []
    for line in table.lines:
        count = sum(line.outcomes.get(name, 0) for name in OPEN)
        value, best = line.overall.value, line.overall.best
        if count and value is not None and best is not None:
            found.append((line.run, count, (value, best)))
    if found:
        runs, counts, bounds = zip(*found, strict=True)
        of = comparison.questions * comparison.epochs
        yield Limitation(kind="open", scorer=table.scorer, runs=runs, counts=counts, of=of, bounds=bounds)


def _counted_as_default(
    store: Store, runs: Sequence[Run], table: ScorerTable, comparison: Comparison, asked: Collection[str]
) -> Iterator[Limitation]:
    """Answers that a scorer cannot read and counts as a certain option."""
    letter = _default(table.scorer)
    found: list[tuple[str, int, tuple[int, int]]] = []
    unread = {line.run for line in table.lines if line.outcomes.get("unreadable")}
    for run in (run for run in runs if letter and run.id in unread):
        scores = [
            one
            for one in store.scores(run, table.scorer)
            if one.question_id in asked and one.epoch < comparison.epochs and one.value is not None
        ]
        defaults = [one for one in scores if one.answer_status == "unreadable"]
        rights = sum(one.value == 1 for one in defaults), sum(one.value == 1 for one in scores)
        found.append((run.id, len(defaults), rights))
    if found:
        ids, counts, right = zip(*found, strict=True)
        of = comparison.questions * comparison.epochs
        yield Limitation(
            kind="default", scorer=table.scorer, letter=letter, runs=ids, counts=counts, rights=right, of=of
        )


def _default(scorer: str) -> str:
    """The option that a scorer counts for an answer that it cannot read; empty: none."""
    known = described(scorer)
    return known.otherwise if isinstance(known, ChoiceScorer) else ""


def _unread(comparison: Comparison, scorers: Sequence[str]) -> Iterator[Limitation]:
    """Answers that are not correct because they cannot be read."""
    shown = [table.scorer for table, _ in comparison.shown(scorers)]
    strict = [name for name in shown if not _default(name)]
    if not strict:
        return
    counted = {
        run: counts["unreadable"]
        for run, counts in comparison.outcomes(scorers if len(strict) == len(shown) else strict).items()
    }
    some = {run: count for run, count in counted.items() if count}
    if some:
        of = comparison.questions * comparison.epochs
        yield Limitation(kind="unreadable", runs=tuple(some), counts=tuple(some.values()), of=of)


def _missing(table: ScorerTable) -> Iterator[Limitation]:
    some = {line.run: line.overall.missing for line in table.lines if line.overall.missing}
    if some:
        whole = table.lines[0].overall
        of = whole.n + whole.missing
        yield Limitation(kind="missing", scorer=table.scorer, runs=tuple(some), counts=tuple(some.values()), of=of)
    if described(table.scorer).needs_judge:
        yield Limitation(kind="judged", scorer=table.scorer)


def _of_rows(comparison: Comparison) -> Iterator[Limitation]:
    rows = comparison.rows
    unpriced = tuple(row.run for row in rows if row.cost_uncached is None)
    if unpriced:
        yield Limitation(kind="unpriced", runs=unpriced)
    imported = tuple(row.run for row in rows if row.origin == "imported")
    if imported:
        yield Limitation(kind="imported", runs=imported)
    kinds: tuple[LimitationKind, ...] = ("unrecorded", "retried")
    for kind in kinds:
        some = {row.run: count for row in rows if (count := getattr(row, kind))}
        if some:
            yield Limitation(kind=kind, runs=tuple(some), counts=tuple(some.values()))


def small_datasets(table: ScorerTable) -> dict[str, int]:
    """The datasets of an average with fewer than :data:`FEW` questions, and how many they have; the smallest first."""
    if not is_average(table):
        return {}
    return smallest({name: figure.n + figure.missing for name, figure in table.lines[0].datasets.items()})


def smallest(counts: Mapping[str, int]) -> dict[str, int]:
    """Of datasets with their numbers of questions those with fewer than :data:`FEW`, the smallest first."""
    return dict(sorted(((name, n) for name, n in counts.items() if n < FEW), key=lambda one: one[1]))
