"""What a reader of a comparison must know, in words: what answered in place of a language model, and what the
comparison cannot show. Each follows from its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ragrounds.base.records import Question, Run
from ragrounds.evals.compare.comparability import common_questions
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.comparison_words import listed
from ragrounds.ui.text import number_of, one_line, percent, safe

FEW = 10
"""Questions of a dataset below which this is said."""


def drawn_words(counts: Mapping[str, int], limit: int) -> str:
    """That a limit leaves some datasets a few questions, and how to draw as many of each; empty: it does not.

    Args:
        counts: dataset → questions drawn.
        limit: of all together.
    """
    small = sorted((n, name) for name, n in counts.items() if n < FEW and len(counts) > 1)
    if not small:
        return ""
    named = ", ".join(f"{safe(name.rpartition('/')[2])} {n:,}" for n, name in small)
    return (
        f"With --limit {limit:,}, {number_of(len(small), 'dataset')} {'has' if len(small) == 1 else 'have'} fewer than "
        f"{FEW} questions ({named}): in an average over datasets each of the {len(counts)} weighs alike. --per-dataset "
        f"{max(1, limit // len(counts)):,} draws as many of each."
    )


def average_heading(table: ScorerTable) -> str:
    """What the figures of a table are an average of; empty: of nothing."""
    count = len(table.lines[0].datasets) if table.lines else 0
    return f"average of {count} datasets" if count > 1 else ""


def limitation_sentences(
    store: Store, runs: Sequence[Run], comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]
) -> Iterator[str]:
    """What a comparison cannot show, as far as its data show and its tables do not.

    Args:
        store: where the runs are.
        runs: those of the comparison.
        comparison: their figures.
        scorers: those that are shown; none: the headlines.
        names: run id → what the run is called, safe to show.
    """
    tables, rows = [table for table, _ in comparison.shown(scorers)], comparison.rows
    if any(row.no_model for row in rows):
        yield "Answers of no language model show that the pipeline works. They say nothing about models or medicine."
    for table in tables:
        if effects := [pair.tests.mde for pair in table.pairs if pair.tests.mde is not None]:
            asked = number_of(max(pair.tests.n for pair in table.pairs), "question")
            ends = dict.fromkeys((percent(min(effects), 1), percent(max(effects), 1)))
            yield (
                f"{asked} under {one_line(table.scorer)} show a true difference with 80 % power only from so many "
                f"points on: {' to '.join(ends)} (minimum detectable effect). Smaller ones may have been missed."
            )
    chosen = [run.identity.get("selection") for run in runs]
    whole = [found["of"] for found in chosen if isinstance(found, Mapping) and isinstance(found.get("of"), int)]
    if whole and comparison.questions < min(whole):
        yield (
            f"The figures are of {comparison.questions:,} questions drawn from {min(whole):,}; they represent the "
            "others as far as the draw does."
        )
    yield from _repeated(common_questions(store, runs, True)[0])
    if comparison.epochs == 1:
        yield "Each question was asked once: how much the answers of one system vary was not measured."
    models = {model.partition("[")[0] for row in rows for model in row.models.values()}
    if len(rows) > 1 and len(models) == 1 and not any(row.no_model for row in rows):
        yield "All systems asked one model: what holds for it need not hold for another."
    for table in tables:
        if unread := {line.run: line.outcomes["unreadable"] for line in table.lines if line.outcomes.get("unreadable")}:
            known, scorer = described(table.scorer), one_line(table.scorer)
            letter = one_line(known.otherwise) if isinstance(known, ChoiceScorer) else ""
            then = (
                f"it counts them as {letter}, which is right wherever {letter} is" if letter else "they are not right"
            )
            said = "; ".join(f"{names[run]} {count:,}" for run, count in unread.items())
            of = comparison.questions * comparison.epochs
            yield f"From some answers {scorer} can read no choice; {then}. Of {of:,} attempts each: {said}."
        if described(table.scorer).needs_judge:
            yield (
                f"Scores under {one_line(table.scorer)} are a model's verdicts. How far it agrees with people is known "
                "only where the part on judges has people's labels."
            )
    if imported := [names[row.run] for row in rows if row.origin == "imported"]:
        yield (
            f"The answers of {listed(imported)} were made elsewhere: how they came about was not seen, and they cannot "
            "be replayed."
        )


def _repeated(questions: Sequence[Question]) -> Iterator[str]:
    """How many questions are not independent of others, known by the benchmark or not."""
    sizes = Counter(f"{one.benchmark} {one.cluster}" for one in questions if one.cluster)
    if groups := [count for count in sizes.values() if count > 1]:
        yield (
            f"{sum(groups):,} of the {len(questions):,} questions are in {number_of(len(groups), 'cluster')} of "
            "duplicates or of one source. Intervals and tests take each as one."
        )
    texts = Counter(
        (" ".join(one.text.split()).casefold(), *sorted(one.options.values())) for one in questions if not one.cluster
    )
    if same := [count for count in texts.values() if count > 1]:
        yield (
            f"{sum(same):,} questions share their text and options with another ({number_of(len(same), 'text')}), and "
            "the benchmark does not mark them as duplicates: intervals take them as independent."
        )
