"""Warnings about a comparison in words: answers without a language model, and the limits of the comparison.

Every warning follows from the data of the comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ragrounds.base.records import Question, Run
from ragrounds.base.text import listed
from ragrounds.evals.compare.comparability import common_questions
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.stats.intervals import identical_runs_bound
from ragrounds.evals.store.store import Store
from ragrounds.models.options import SMOLLM2, SMOLLM2_CAVEAT
from ragrounds.ui.tables.comparison_words import noise_words
from ragrounds.ui.text import number_of, one_line, percent, safe

FEW = 10
"""Number of questions of a dataset below which a warning is given."""


def drawn_words(counts: Mapping[str, int], limit: int) -> str:
    """Return a warning if a limit leaves few questions to some datasets, with an option that draws evenly; else empty.

    Args:
        counts: dataset → number of sampled questions.
        limit: limit on the questions of all datasets together.
    """
    small = sorted((n, name) for name, n in counts.items() if n < FEW and len(counts) > 1)
    if not small:
        return ""
    datasets = ", ".join(f"{safe(name.rpartition('/')[2])} {n:,}" for n, name in small)
    return (
        f"With --limit {limit:,}, {number_of(len(small), 'dataset')} {'has' if len(small) == 1 else 'have'} fewer than "
        f"{FEW} questions ({datasets}): in an average over datasets each of the {len(counts)} weighs alike. "
        f"--per-dataset "
        f"{max(1, limit // len(counts)):,} draws as many of each."
    )


def average_heading(table: ScorerTable) -> str:
    """Return the number of datasets that a table's figures are averaged over, as text; empty for a single dataset."""
    count = len(table.lines[0].datasets) if table.lines else 0
    return f"average of {count} datasets" if count > 1 else ""


def limitation_sentences(
    store: Store, runs: Sequence[Run], comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]
) -> Iterator[str]:
    """Yield sentences on the limits of a comparison that its data show and its tables do not.

    Args:
        store: the store that has the runs.
        runs: the runs of the comparison.
        comparison: their figures.
        scorers: the scorers that are shown; if empty, the headlines.
        names: run id → name of the run, safe to show.
    """
    tables, rows = comparison.headline_tables(scorers), comparison.rows
    if any(row.no_model for row in rows):
        yield "Answers of no language model show that the pipeline works. They say nothing about models or medicine."
    models = {model.partition("[")[0] for row in rows for model in row.models.values()}
    if SMOLLM2 in models:
        yield SMOLLM2_CAVEAT
    for table in tables:
        if effects := [pair.tests.mde for pair in table.pairs if pair.tests.mde is not None]:
            questions = number_of(max(pair.tests.n for pair in table.pairs), "question")
            ends = dict.fromkeys((percent(min(effects), 1), percent(max(effects), 1)))
            yield (
                f"{questions} under {one_line(table.scorer)} show a true difference with 80 % power only from so many "
                f"points on: {' to '.join(ends)} (minimum detectable effect). Smaller ones may have been missed."
            )
    selections = [run.identity.get("selection") for run in runs]
    totals = [
        selection["of"]
        for selection in selections
        if isinstance(selection, Mapping) and isinstance(selection.get("of"), int)
    ]
    if totals and comparison.questions < min(totals):
        yield (
            f"The figures are of {comparison.questions:,} questions sampled from {min(totals):,}; they represent the "
            "others as far as the draw does."
        )
    yield from _repeated_question_sentences(common_questions(store, runs, True)[0])
    for noise in comparison.noise if tables else ():
        scored = max(line.overall.n for line in tables[0].lines)
        bound = percent(identical_runs_bound(noise.square, scored * comparison.epochs), 1)
        yield (
            f"{noise_words(noise, names, len(rows))} Intervals over questions contain this variation. Two runs of one "
            f"system on these questions differ by up to {bound} points by it (95 %)."
        )
    if comparison.epochs == 1 and not comparison.noise:
        yield "Each question was asked once: how much the answers of one system vary was not measured."
    if len(rows) > 1 and len(models) == 1 and not any(row.no_model for row in rows):
        yield "All systems asked one model: what holds for it need not hold for another."
    for table in tables:
        if unread := {line.run: line.outcomes["unreadable"] for line in table.lines if line.outcomes.get("unreadable")}:
            scorer_record, scorer = described(table.scorer), one_line(table.scorer)
            letter = one_line(scorer_record.otherwise) if isinstance(scorer_record, ChoiceScorer) else ""
            consequence = (
                f"it counts them as {letter}, which is right wherever {letter} is" if letter else "they are not right"
            )
            counts = "; ".join(f"{names[run]} {count:,}" for run, count in unread.items())
            attempts = comparison.questions * comparison.epochs
            yield (
                f"From some answers {scorer} can read no choice; {consequence}. Of {attempts:,} attempts each: "
                f"{counts}."
            )
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


def _repeated_question_sentences(questions: Sequence[Question]) -> Iterator[str]:
    """Yield how many questions are not independent of others, whether the benchmark marks them or not."""
    sizes = Counter(f"{question.benchmark} {question.cluster}" for question in questions if question.cluster)
    if groups := [count for count in sizes.values() if count > 1]:
        yield (
            f"{sum(groups):,} of the {len(questions):,} questions are in {number_of(len(groups), 'cluster')} of "
            "duplicates or of one source. Intervals and tests take each as one."
        )
    texts = Counter(
        (" ".join(question.text.split()).casefold(), *sorted(question.options.values()))
        for question in questions
        if not question.cluster
    )
    if copies := [count for count in texts.values() if count > 1]:
        yield (
            f"{sum(copies):,} questions share their text and options with another ({number_of(len(copies), 'text')}), "
            "and the benchmark does not mark them as duplicates: intervals take them as independent."
        )
